"""The command line: one module per command, each importing only what it needs when it runs."""
