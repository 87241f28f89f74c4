"""Webhooks: HTTP requests with events."""
