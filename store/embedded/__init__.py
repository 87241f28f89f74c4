"""The embedded PostgreSQL server: its programs, data folder, account and shutdown."""
