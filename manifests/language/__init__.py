"""The manifest language: its models, JSON Schema and rules."""
