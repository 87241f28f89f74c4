"""Keys that sign tokens, and their rotation without an interruption for verifiers.

A key in the database goes through four states. The state follows from times that are stored when
the key is created, by the database's clock, so all replicas agree on it at any time.

    next ──active_from──▶ active ──the following key's active_from──▶ retiring ──25 h──▶ retired

- **next**: the key is published, but signs nothing. `keys rotate` creates it. It lasts for the lead
  (15 minutes), which must be longer than verifiers cache the key set. So a verifier has the key
  before it sees the first token of that key.
- **active**: the key signs. It is always the newest key whose `active_from` has passed, so there is
  exactly one, once there is a key at all. The first key is active at once, because no verifier has
  fetched keys yet.
- **retiring**: another key signs, but this one is still published. It lasts as long as a token can
  live: the longest timeout of a schedule (a day), a minute, and the leeway of verifiers.
- **retired**: the key is no longer published, and the next `keys` command that makes a change wipes
  its private key. Its row remains for the record.

Failures:

- A key leaks: `keys rotate --now` makes a new key sign at once, then `keys retire` retires the old
  one. Verifiers reject its tokens after their next fetch, at the latest when their cache expires.
  The signing key cannot be retired, because tokens could no longer be signed.
- A scheduler misses a rotation: impossible. It reads which key signs with every token, in the
  statement that checks the lease. It only caches the last key that it used.
- Two users rotate at once: a lock serialises them, and the second gets an error, because a next key
  exists.
- No key exists: the first token creates one, under the same lock.
- The master key is lost: no key can be unsealed. With a new master key, `keys rotate --now` creates
  a usable key, and `keys retire` retires the unusable one.

To change the master key: set `new,old` everywhere, run `keys rewrap`, set `new` everywhere.

Keys in the settings (`signing_key`) replace all keys in the database. The first private key signs,
and all keys are published. The platform rotates them by changing the setting.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.keys import (
    Algorithm,
    PublicKey,
    SigningKey,
    from_secret,
    generate,
    jwks,
)
from tenantcron.actor.sealing import seal, unseal
from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.errors import DeclinedError, TenantcronError
from tenantcron.core.key_leads import LEAD
from tenantcron.core.master_keys import MasterKey
from tenantcron.core.values import JsonObject
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, signing_keys
from tenantcron.store.rows.signing_keys import KeyRow

# The longest timeout (a day), a minute, the longest leeway, and a margin for clock skew.
RETIRING: Final = timedelta(hours=25)


class SigningKeyError(DeclinedError):
    """No key can sign, or the requested change of a key is not possible."""


class KeyState(StrEnum):
    """The state of a key."""

    NEXT = "next"
    ACTIVE = "active"
    RETIRING = "retiring"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """A key and its state, and until when it lasts; None if no end is known."""

    row: KeyRow
    state: KeyState
    until: datetime | None = None


def key_statuses(rows: Sequence[KeyRow], now: datetime) -> list[KeyStatus]:
    """Return the states of keys at a time, ordered by `active_from`."""
    ordered = sorted(rows, key=lambda row: (row.active_from, row.kid))
    in_use = [row for row in ordered if row.retired_at is None]
    following = dict(zip((row.kid for row in in_use), in_use[1:], strict=False))
    return [_key_status(row, following.get(row.kid), now) for row in ordered]


def _key_status(row: KeyRow, following: KeyRow | None, now: datetime) -> KeyStatus:
    if row.retired_at is not None:
        return KeyStatus(row, KeyState.RETIRED)
    if row.active_from > now:
        return KeyStatus(row, KeyState.NEXT, row.active_from)
    if following is None or following.active_from > now:
        return KeyStatus(row, KeyState.ACTIVE, following.active_from if following else None)
    end = following.active_from + RETIRING
    return KeyStatus(row, KeyState.RETIRING, end) if now < end else KeyStatus(row, KeyState.RETIRED)


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of one database, changed on behalf of an actor."""

    database: Database
    material: KeyMaterial
    who: Attribution
    clock: Clock = database_clock

    async def list_all(self) -> list[KeyStatus]:
        """Return all keys with their states."""
        async with self.database.transaction() as connection:
            now = await times.moment(connection, self.clock())
            return key_statuses(await signing_keys.list_all(connection), now)

    async def rotate(
        self, algorithm: Algorithm = Algorithm.EDDSA, lead: timedelta = LEAD
    ) -> KeyStatus:
        """Create a key that signs after the lead; without a lead, or as the first key, at once."""
        async with self._changing() as (connection, known, now):
            waiting = next((key for key in known if key.state is KeyState.NEXT), None)
            if waiting is not None and lead:
                raise SigningKeyError(
                    f"the key {waiting.row.kid} is already published and signs from "
                    f"{waiting.row.active_from.isoformat()}: wait for it, or retire it first"
                )
            is_first = all(key.state is not KeyState.ACTIVE for key in known)
            active_from = now if is_first else now + lead
            row = await self._add(connection, algorithm, now, active_from)
            await self._wipe(connection, known, now)
            rows = [*(key.row for key in known), row]
            return next(key for key in key_statuses(rows, now) if key.row is row)

    async def first(self) -> str:
        """Return the id of the active key, and create it if there is none."""
        async with self._changing() as (connection, known, now):
            active = next((key for key in known if key.state is KeyState.ACTIVE), None)
            if active is not None:
                return active.row.kid
            return (await self._add(connection, Algorithm.EDDSA, now, now)).kid

    async def retire(self, kid: str) -> KeyStatus:
        """Retire a key early."""
        async with self._changing() as (connection, known, now):
            found = next((key for key in known if key.row.kid == kid), None)
            if found is None:
                raise _unknown_key(kid)
            if found.state is KeyState.RETIRED:
                raise SigningKeyError(f"the key {kid} is already retired")
            if found.state is KeyState.ACTIVE and self.material.own() is None:
                raise SigningKeyError(
                    f"the key {kid} is active and cannot be retired: first run `tenantcron keys "
                    "rotate --now` to make another key active"
                )
            await signing_keys.retire(connection, kid, now)
            await self._wipe(connection, known, now)
            return KeyStatus(replace(found.row, sealed=None, retired_at=now), KeyState.RETIRED)

    async def rewrap(self) -> int:
        """Seal all keys with the first master key, and return how many were changed."""
        first = self._master()
        async with self._changing() as (connection, known, _):
            others = [
                key.row for key in known if key.row.sealed and key.row.sealed.sealed_by != first.id
            ]
            # Unseal all keys before the first write, so that a failure changes nothing.
            opened = [(row.kid, self._open(row)) for row in others]
            for kid, key in opened:
                await signing_keys.reseal(connection, kid, seal(key.secret(), kid, first))
            return len(opened)

    async def find(self, kid: str) -> SigningKey:
        """Return an unsealed key."""
        async with self.database.transaction() as connection:
            row = await signing_keys.find(connection, kid)
        if row is None:
            raise _unknown_key(kid)
        return self._open(row)

    async def key_set(self) -> JsonObject:
        """Return the public keys for verifiers, as a JSON Web Key Set.

        They are computed from the unsealed private keys. A row that was inserted without the master
        key is an error here, and never a key that verifiers trust.
        """
        own = self.material.own()
        published = [] if own is None else list(own.published)
        return jwks([*published, *await self._published()])

    async def _published(self) -> list[PublicKey]:
        known = await self.list_all()
        return [self._open(key.row).public for key in known if key.state is not KeyState.RETIRED]

    def _open(self, row: KeyRow) -> SigningKey:
        if row.sealed is None:
            raise SigningKeyError(f"the key {row.kid} is retired, and its private key was wiped")
        return from_secret(unseal(row.sealed, row.kid, self.material.masters()))

    async def _add(
        self, connection: AsyncConnection, algorithm: Algorithm, now: datetime, active: datetime
    ) -> KeyRow:
        key = generate(algorithm)
        kid = key.public.kid
        row = KeyRow(
            kid=kid,
            algorithm=algorithm.value,
            sealed=seal(key.secret(), kid, self._master()),
            created_at=now,
            active_from=active,
            retired_at=None,
        )
        await signing_keys.add(connection, row)
        return row

    async def _wipe(
        self, connection: AsyncConnection, known: Sequence[KeyStatus], now: datetime
    ) -> None:
        for key in known:
            if key.state is KeyState.RETIRED and key.row.retired_at is None:
                await signing_keys.retire(connection, key.row.kid, now)

    def _master(self) -> MasterKey:
        masters = self.material.masters()
        if not masters:
            raise SigningKeyError(
                "there is no master key to seal private keys: set TENANTCRON_MASTER_KEY or "
                "TENANTCRON_MASTER_KEY_FILE (create one with `openssl rand -base64 32`)"
            )
        return masters[0]

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[tuple[AsyncConnection, list[KeyStatus], datetime]]:
        """Lock the keys against concurrent changes."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            await signing_keys.lock(connection)
            now = await times.moment(connection, self.clock())
            yield connection, key_statuses(await signing_keys.list_all(connection), now), now


class Signer:
    """The key that signs in this process; the last one used is cached."""

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys
        self._open: SigningKey | None = None

    async def key(self, kid: str | None) -> SigningKey:
        """Return the signing key of the settings, else the one with an id from the database."""
        own = self._keys.material.own()
        if own is not None:
            return own.signing
        if not self._keys.material.masters():
            raise SigningKeyError(
                "no signing key is configured: set TENANTCRON_MASTER_KEY or "
                "TENANTCRON_SIGNING_KEY_FILE"
            )
        named = kid or await self._keys.first()
        if self._open is None or self._open.public.kid != named:
            self._open = await self._keys.find(named)
        return self._open


def _unknown_key(kid: str) -> SigningKeyError:
    return SigningKeyError(f"there is no key {kid}: `tenantcron keys list` lists all keys")


async def signing_fault(keys: SigningKeys) -> str | None:
    """Return why tokens cannot be signed; None if they can, or if no key was ever needed."""
    try:
        own = keys.material.own()
        active = next((key for key in await keys.list_all() if key.state is KeyState.ACTIVE), None)
        if own is None and active is not None:
            await keys.find(active.row.kid)
    except TenantcronError as error:
        return str(error)
    return None
