"""What the database consists of: tables, versions, tenants' schemas, roles."""
