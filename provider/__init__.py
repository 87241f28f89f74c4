"""Where the scheduler gets schedules: the protocol, the tenants' tables, and fixed ones."""
