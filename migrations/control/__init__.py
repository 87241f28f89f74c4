"""The control migrations."""
