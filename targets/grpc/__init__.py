"""gRPC targets: one call of a service for each attempt."""
