"""Completion in bash, zsh and fish (docs/decisions/0040)."""
