"""Python handlers: their registry, and handlers in their own process."""
