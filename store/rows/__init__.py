"""Rows of the tables: one module per table, or per use of a table."""
