"""The dashboard: pages for people, made by the server, on the same rules as the REST API."""
