"""Alembic with two histories: `control`, once per database, and `tenant`, once per tenant."""
