"""Tokens that authenticate an execution to the services it calls."""

from typing import Protocol


class TokenError(Exception):
    """No token: the lease is lost, the tenant is not active, or signing failed."""


class Tokens(Protocol):
    """Mints the tokens of one execution."""

    async def mint(self, audience: str) -> str:
        """Return a new token for the audience; raise a TokenError if there is none."""

    def mint_plain(self, audience: str) -> str:
        """Return a new token in a plain thread."""
