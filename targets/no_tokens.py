"""In place of tokens, where nobody mints any."""

from typing import Final

from tenantcron.targets.tokens import TokenError, Tokens


class _NoTokens:
    """For executions that nobody has given any, in tests for example."""

    async def mint(self, audience: str) -> str:
        return self.mint_plain(audience)

    def mint_plain(self, audience: str) -> str:
        raise TokenError(f"no token for {audience}: this execution was given none to mint")


NO_TOKENS: Final[Tokens] = _NoTokens()
