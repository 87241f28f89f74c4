"""The only folder that speaks SQL: engine, embedded server, tables, and one module per table."""
