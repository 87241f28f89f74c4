"""NATS JetStream as an event bus, behind the extra `nats`."""
