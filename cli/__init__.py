"""The command line: one module per command. Each module imports what it needs only when it runs."""
