"""Tokens that prove an execution to the services it calls."""

from typing import Protocol


class TokenError(Exception):
    """No token: the lease is gone, the tenant is not active, or none can be made."""


class Tokens(Protocol):
    """Mints tokens of one execution."""

    async def mint(self, audience: str) -> str:
        """Return a fresh token for the audience; a TokenError if there can be none."""

    def mint_plain(self, audience: str) -> str:
        """Do so in a plain thread."""
