"""The tenant migrations."""
