"""HTTP targets: one request to a service for each attempt."""
