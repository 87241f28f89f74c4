"""Shared by the API, the dashboard and the command line: callers, roles, look-ups, responses."""
