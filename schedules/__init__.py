"""What a schedule is: its settings, its stored form, its pause and its upcoming executions."""
