"""The dashboard: server-rendered pages with the same authorisation as the REST API."""
