"""The platform's registry as the source of tenants: reading, checking and syncing it."""
