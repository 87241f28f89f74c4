"""Execution tokens: signing keys and minting."""
