"""Connections to the database: engine, deadlines, locks, settings, errors."""
