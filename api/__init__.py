"""The REST API: the operations of the command line, for authenticated callers."""
