"""What operators do to schedules and executions."""
