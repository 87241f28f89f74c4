"""A cluster through a server of its API. Imports no database driver."""
