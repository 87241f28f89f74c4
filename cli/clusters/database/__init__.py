"""A cluster through its database."""
