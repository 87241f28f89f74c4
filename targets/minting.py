"""Tokens for the services that targets call."""

from collections.abc import Container

from tenantcron.core.auth import audience_refusal
from tenantcron.targets.responses import FailCall, RetryCall
from tenantcron.targets.tokens import TokenError, Tokens


async def mint_token(
    tokens: Tokens | None, audience: str, origin: str, allowed: Container[str]
) -> str:
    """Mint a token; check the audience again, because the stored definition can be edited."""
    refusal = audience_refusal(audience, origin, allowed)
    if refusal is not None:
        raise FailCall(f"{refusal.message}: {refusal.hint}")
    if tokens is None:
        raise FailCall("the target needs an execution token, and this scheduler has no signing key")
    try:
        return await tokens.mint(audience)
    except TokenError as error:
        raise RetryCall(f"no execution token for {audience}: {error}") from error
