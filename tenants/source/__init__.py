"""The platform's own registry as the source of tenants: reading, checking and following it."""
