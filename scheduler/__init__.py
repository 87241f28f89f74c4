"""When and whether things run: fire, claim, execute, finish, and what keeps them honest."""
