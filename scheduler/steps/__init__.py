"""The steps of an execution: fire, claim, execute, finish, retry; and its leases."""
