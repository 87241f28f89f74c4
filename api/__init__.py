"""The REST API: the same operations as the command line, for callers who prove who they are."""
