"""The database schema: tables, versions, tenant schemas, roles."""
