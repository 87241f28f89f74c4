"""Tokens that prove an execution to the services it calls."""

from typing import Final, Protocol


class TokenError(Exception):
    """No token: the lease is gone, the tenant is not active, or none can be made."""


class Tokens(Protocol):
    """Mints tokens of one execution."""

    async def mint(self, audience: str) -> str:
        """Return a fresh token for the audience; a TokenError if there can be none."""

    def mint_plain(self, audience: str) -> str:
        """Do so in a plain thread."""


class _NoTokens:
    """For executions that nobody has given any, in tests for example."""

    async def mint(self, audience: str) -> str:
        return self.mint_plain(audience)

    def mint_plain(self, audience: str) -> str:
        raise TokenError(f"no token for {audience}: this execution was given none to mint")


NO_TOKENS: Final[Tokens] = _NoTokens()
