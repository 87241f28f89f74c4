"""Tokens of executions: request and decode them in tests."""

from collections.abc import Mapping

import jwt
import pytest
from support.attempts import SETTINGS

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.key_sets import FixedKeys
from tenantcron.actor.model import Actor, ActorType
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.scheduler.tokens.token_minting import Minter
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.tokens import TokenError

BILLING = "https://billing.internal"
TIMEOUT = SETTINGS.timeout
MARIA = Attribution(Actor("maria", ActorType.HUMAN, "cli"))
Payload = Mapping[str, object]


def kid_of(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])


async def read(token: str, keys: SigningKeys) -> Payload:
    """Return the claims of a token, verified except for its times, which are of the fake clock."""
    key = FixedKeys(await keys.key_set()).find(kid_of(token))
    assert key is not None
    unchecked = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud")}
    algorithms = [key.algorithm.value]
    return jwt.decode(token, key.key, algorithms=algorithms, options=unchecked)  # type: ignore[arg-type] # names of options


async def refusal(minter: Minter, claimed: Claimed, audience: str = BILLING) -> str:
    with pytest.raises(TokenError) as caught:
        await minter(claimed, TIMEOUT).mint(audience)
    return str(caught.value)
