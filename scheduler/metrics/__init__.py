"""Metrics: what a replica counts, and the endpoints that Prometheus and probes read."""
