"""How one saga is run: Python handlers, registered by name."""
