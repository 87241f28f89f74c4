"""tenantcron: schedules of many tenants, declared in Git and fired exactly once."""
