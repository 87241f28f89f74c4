"""Operations on schedules and executions."""
