"""The scheduler: fires schedules, claims and runs executions, and reports on them."""
