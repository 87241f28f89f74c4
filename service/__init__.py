"""What the API, the dashboard and the command line share: callers, roles, look-ups, responses."""
