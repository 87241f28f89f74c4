"""Rows of the tables: one module for each table, or for one use of it."""
