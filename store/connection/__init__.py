"""How statements reach the database: engine, deadlines, locks, settings, errors."""
