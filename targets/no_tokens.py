"""The token source of executions that have none."""

from typing import Final

from tenantcron.targets.tokens import TokenError, Tokens


class _NoTokens:
    """Refuses every token, in tests for example."""

    async def mint(self, audience: str) -> str:
        return self.mint_plain(audience)

    def mint_plain(self, audience: str) -> str:
        raise TokenError(f"no token for {audience}: this execution cannot mint tokens")


NO_TOKENS: Final[Tokens] = _NoTokens()
