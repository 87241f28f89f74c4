"""Live tokens: check whether the attempt of an execution token still runs, and renew the token.

A signature proves who minted a token, not that its attempt still runs. The issuer first verifies
the signature without the database, and then reads the execution's row. The token is active while

- the execution runs, its lease has not expired, and the token contains that lease (a token of an
  earlier attempt contains another one);
- its tenant and its identity are active;
- it has not expired by the database's clock.

A renewal checks the same again in the statement that mints, so a lease that is lost in between
mints nothing. The new token repeats the claims of the old one. A renewal extends only the lifetime,
at most until a minute after the deadline of the attempt.

Public keys are cached for a few seconds, so a retired key still verifies for that long. The
content of recently verified tokens is cached for as long as the keys stay the same: a worker sends
the same token with every heartbeat, and a signature costs more than the rest of the check.
"""

import hmac
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Final
from uuid import UUID

from tenantcron.actor.execution_tokens import ROLE, Claims, lease_digest, sign
from tenantcron.actor.key_sets import FixedKeys
from tenantcron.actor.verification import Proof, key_id, verify_own
from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.settings import Settings
from tenantcron.core.values import JsonObject
from tenantcron.scheduler.tokens.signing_keys import Signer, SigningKeys
from tenantcron.store.rows.api_usage import ApiUsage
from tenantcron.store.steps import minting
from tenantcron.store.steps.claiming import Lease

# Seconds for which public keys are cached, and the minimum between fetches for unknown keys.
_KEPT_FOR: Final = 5.0
_AT_MOST_EVERY: Final = 1.0
# How many verified tokens are cached, the most recent ones; about a kilobyte each.
_TOKENS_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """The state of a verified token in the database."""

    # None: the token is not active.
    lease: Lease | None
    # None: the request was not counted.
    usage: ApiUsage | None


@dataclass(frozen=True, slots=True)
class Renewed:
    """A new token, and its lifetime in seconds."""

    token: str
    expires_in: int


class LiveTokens:
    """The execution tokens of one database, for the process that serves the API."""

    def __init__(
        self, keys: SigningKeys, settings: Settings, clock: Clock = database_clock
    ) -> None:
        self._database = keys.database
        self._keys = keys
        self._settings = settings
        self._clock = clock
        self._signer = Signer(keys)
        self._key_set: JsonObject = {"keys": []}
        self._trusted = FixedKeys(self._key_set)
        self._trusted_at = float("-inf")
        # By the digest of the token.
        self._verified: OrderedDict[bytes, Proof] = OrderedDict()

    async def verified(self, token: str) -> Proof:
        """Verify a token as of when it was issued; raise InvalidTokenError if it is invalid."""
        keys = await self._keys_for(key_id(token))
        digest = sha256(token.encode()).digest()
        proof = self._verified.get(digest)
        if proof is None:
            proof = self._verified[digest] = verify_own(token, keys, self._settings.issuer)
            if len(self._verified) > _TOKENS_KEPT:
                self._verified.popitem(last=False)
        else:
            self._verified.move_to_end(digest)
        return proof

    async def check(self, proof: Proof, caller: str | None = None) -> TokenCheck:
        """Check whether a token is active now; count the request if a caller is given."""
        found = await minting.token_lease(
            self._database,
            proof.execution,
            identity=proof.actor.id,
            at=self._clock(),
            caller=caller,
        )
        token = found.lease_token
        if token is None or proof.expires_at <= found.now or not _names(proof, token):
            return TokenCheck(None, found.usage)
        return TokenCheck((proof.execution, token), found.usage)

    async def renew(self, proof: Proof, lease: Lease) -> Renewed | None:
        """Renew an active token; return None if it is no longer active."""
        identity = proof.actor.id
        async with self._database.transaction() as connection:
            permits = await minting.permits(
                connection, [lease], identity=identity, at=self._clock()
            )
        permit = permits.get(lease)
        if permit is None or not permit.allows or proof.attempt is None or proof.deadline is None:
            return None
        claims = Claims(
            issuer=self._settings.issuer,
            subject=identity,
            audience=proof.audience,
            tenant=proof.tenant,
            execution=proof.execution,
            attempt=proof.attempt,
            lease=lease_digest(*lease),
            now=permit.now,
            deadline=proof.deadline,
            lifetime=self._settings.token_lifetime,
            owner=proof.owner,
            roles=tuple(role for role in proof.roles if role != ROLE),
        )
        seconds = int((claims.expires_at - permit.now).total_seconds())
        if seconds <= 0:
            return None
        return Renewed(sign(claims, await self._signer.key(permit.kid)), seconds)

    async def _keys_for(self, kid: str | None) -> FixedKeys:
        age = monotonic() - self._trusted_at
        is_known = kid is not None and self._trusted.find(kid) is not None
        if age >= (_KEPT_FOR if is_known else _AT_MOST_EVERY):
            self._trust(await self._keys.key_set())
            self._trusted_at = monotonic()
        return self._trusted

    def _trust(self, key_set: JsonObject) -> None:
        if key_set != self._key_set:
            self._key_set, self._trusted = key_set, FixedKeys(key_set)
            self._verified.clear()


def _names(proof: Proof, lease_token: UUID) -> bool:
    """Whether a token belongs to the attempt that holds this lease."""
    expected = lease_digest(proof.execution, lease_token)
    return hmac.compare_digest(proof.lease or "", expected)
