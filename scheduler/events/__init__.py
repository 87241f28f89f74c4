"""Delivery of events to webhooks."""
