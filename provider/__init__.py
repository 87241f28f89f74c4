"""Where the scheduler gets schedules from: the protocol, the tenants' tables, and static ones."""
