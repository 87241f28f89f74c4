"""How one saga is run: Python handlers, registered by name, and calls of HTTP services."""
