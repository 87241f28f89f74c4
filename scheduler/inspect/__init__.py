"""What people ask: the status of a schedule, why, health, audit."""
