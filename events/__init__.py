"""Events for other systems: the outbox, webhooks and event buses."""
