"""Kafka as an event bus, behind the extra `kafka`."""
