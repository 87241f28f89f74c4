"""Metrics: what a replica counts, and how Prometheus reads it."""
