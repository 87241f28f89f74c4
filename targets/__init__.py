"""How an attempt of a saga runs: as a Python handler, or as a call of an HTTP service."""
