"""What a schedule is: its settings, its target, its pause and its upcoming executions."""
