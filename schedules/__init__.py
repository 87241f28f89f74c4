"""What a schedule is: its pause and its upcoming executions."""
