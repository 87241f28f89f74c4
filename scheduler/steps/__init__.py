"""The steps of an execution: fire, claim, execute, finish and retry, and its leases."""
