"""Keys that sign tokens: how one takes the place of another while verifiers look on.

A key in the database goes through four states. Nobody moves it: its state follows from times that
were written down when it was made, by the database's clock, so all replicas agree at any moment.

    next ──active_from──▶ active ──the following key's active_from──▶ retiring ──25 h──▶ retired

- **next**: verifiers can fetch it, nothing is signed with it. `keys rotate` makes it, and it lasts
  for the lead (15 minutes), which must be longer than verifiers keep what they have fetched. So
  whoever is shown the first token of a new key knows the key already.
- **active**: it signs. It is always the newest of those whose time has come, so there is never more
  than one, and as soon as there is a first one never none. The very first key is active at once:
  nobody has fetched anything yet.
- **retiring**: another one signs, this one still verifies. It lasts for as long as a token can
  live: the longest timeout of a schedule is a day, then a minute, then the leeway of verifiers.
- **retired**: it is not published any more, and the next `keys` command that changes anything wipes
  its private half. Its row stays for the record.

What can go wrong:

- A key got into the wrong hands: `keys rotate --now` lets a new one sign at once, then
  `keys retire` takes the old one back. Its tokens are refused as soon as verifiers fetch anew, at
  the latest when what they have is too old for them. The key that signs cannot be retired: nobody
  would sign.
- A scheduler has not heard of a rotation: it cannot happen. Which key signs is read with every
  token, in the statement that looks at the lease; a scheduler only keeps the key open that it used
  last.
- Two people rotate at once: they take turns, and the second is told that a next key is there.
- Nobody has made a key: the first token does, under the same lock.
- The master key is lost: nothing opens. With a new one, `keys rotate --now` makes a key that does,
  and `keys retire` takes away the one that does not.

The master key changes in three steps: `new,old` everywhere, `keys rewrap`, `new` everywhere.

Keys of the settings (`signing_key`) sign in place of all these. The first private key of the text
signs, and all keys in it are published; their rotation is in the hands of whoever writes the text.
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
from tenantcron.core.errors import TenantcronError
from tenantcron.core.master_keys import MasterKey
from tenantcron.core.values import JsonObject
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, signing_keys
from tenantcron.store.rows.signing_keys import KeyRow

LEAD: Final = timedelta(minutes=15)
# A day of timeout, the minute after it, the longest leeway; and some for a slow clock.
RETIRING: Final = timedelta(hours=25)


class SigningKeyError(TenantcronError):
    """There is no key to sign with, or a key cannot be moved like that."""


class KeyState(StrEnum):
    """Where a key is in its life."""

    NEXT = "next"
    ACTIVE = "active"
    RETIRING = "retiring"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Standing:
    """A key, its state, and until when it has that; None if nothing ends it."""

    row: KeyRow
    state: KeyState
    until: datetime | None = None


def standings(rows: Sequence[KeyRow], now: datetime) -> list[Standing]:
    """Return the states of keys at a moment, in the order in which they come into use."""
    ordered = sorted(rows, key=lambda row: (row.active_from, row.kid))
    in_use = [row for row in ordered if row.retired_at is None]
    following = dict(zip((row.kid for row in in_use), in_use[1:], strict=False))
    return [_standing(row, following.get(row.kid), now) for row in ordered]


def _standing(row: KeyRow, following: KeyRow | None, now: datetime) -> Standing:
    if row.retired_at is not None:
        return Standing(row, KeyState.RETIRED)
    if row.active_from > now:
        return Standing(row, KeyState.NEXT, row.active_from)
    if following is None or following.active_from > now:
        return Standing(row, KeyState.ACTIVE, following.active_from if following else None)
    end = following.active_from + RETIRING
    return Standing(row, KeyState.RETIRING, end) if now < end else Standing(row, KeyState.RETIRED)


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of one database, changed in the name of somebody."""

    database: Database
    material: KeyMaterial
    who: Attribution
    clock: Clock = database_clock

    async def list_all(self) -> list[Standing]:
        """Return all keys with their states."""
        async with self.database.transaction() as connection:
            now = await times.moment(connection, self.clock())
            return standings(await signing_keys.list_all(connection), now)

    async def rotate(
        self, algorithm: Algorithm = Algorithm.EDDSA, lead: timedelta = LEAD
    ) -> Standing:
        """Make a key that will sign after the lead; without a lead, or as the first, at once."""
        async with self._changing() as (connection, known, now):
            waiting = next((one for one in known if one.state is KeyState.NEXT), None)
            if waiting is not None and lead:
                raise SigningKeyError(
                    f"the key {waiting.row.kid} is published already and signs from "
                    f"{waiting.row.active_from.isoformat()} on: wait for it, or retire it first"
                )
            is_first = all(one.state is not KeyState.ACTIVE for one in known)
            active_from = now if is_first else now + lead
            row = await self._add(connection, algorithm, now, active_from)
            await self._wipe(connection, known, now)
            rows = [*(one.row for one in known), row]
            return next(one for one in standings(rows, now) if one.row is row)

    async def first(self) -> str:
        """Return the name of the key that signs, made now if there is none."""
        async with self._changing() as (connection, known, now):
            active = next((one for one in known if one.state is KeyState.ACTIVE), None)
            if active is not None:
                return active.row.kid
            return (await self._add(connection, Algorithm.EDDSA, now, now)).kid

    async def retire(self, kid: str) -> Standing:
        """Take a key back before its time."""
        async with self._changing() as (connection, known, now):
            found = next((one for one in known if one.row.kid == kid), None)
            if found is None:
                raise SigningKeyError(f"there is no key {kid}: `tenantcron keys list` shows all")
            if found.state is KeyState.RETIRED:
                raise SigningKeyError(f"the key {kid} is retired already")
            if found.state is KeyState.ACTIVE and self.material.own() is None:
                raise SigningKeyError(
                    f"the key {kid} signs, and nobody would if it were retired: let another one "
                    "sign with `tenantcron keys rotate --now` first"
                )
            await signing_keys.retire(connection, kid, now)
            await self._wipe(connection, known, now)
            return Standing(replace(found.row, sealed=None, retired_at=now), KeyState.RETIRED)

    async def rewrap(self) -> int:
        """Seal all keys with the first master key; return how many were sealed with another."""
        first = self._master()
        async with self._changing() as (connection, known, _):
            others = [
                one.row for one in known if one.row.sealed and one.row.sealed.sealed_by != first.id
            ]
            # All are opened before any is written: one that does not open must not stop half-way.
            opened = [(row.kid, self._open(row)) for row in others]
            for kid, key in opened:
                await signing_keys.seal_anew(connection, kid, seal(key.secret(), kid, first))
            return len(opened)

    async def find(self, kid: str) -> SigningKey:
        """Return a key that can sign."""
        async with self.database.transaction() as connection:
            row = await signing_keys.find(connection, kid)
        if row is None:
            raise SigningKeyError(f"there is no key {kid}: `tenantcron keys list` shows all")
        return self._open(row)

    async def key_set(self) -> JsonObject:
        """Return the public keys that verifiers are to trust, as a JSON Web Key Set.

        They are reckoned from what the master key opens: a row that somebody else has written into
        the table is an error here, never a key that verifiers trust.
        """
        own = self.material.own()
        published = [] if own is None else list(own.published)
        return jwks([*published, *await self._published()])

    async def _published(self) -> list[PublicKey]:
        known = await self.list_all()
        return [self._open(one.row).public for one in known if one.state is not KeyState.RETIRED]

    def _open(self, row: KeyRow) -> SigningKey:
        if row.sealed is None:
            raise SigningKeyError(f"the key {row.kid} is retired: nobody has its private half")
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
        self, connection: AsyncConnection, known: Sequence[Standing], now: datetime
    ) -> None:
        for one in known:
            if one.state is KeyState.RETIRED and one.row.retired_at is None:
                await signing_keys.retire(connection, one.row.kid, now)

    def _master(self) -> MasterKey:
        masters = self.material.masters()
        if not masters:
            raise SigningKeyError(
                "there is no master key to seal a private key with: set TENANTCRON_MASTER_KEY, "
                "or TENANTCRON_MASTER_KEY_FILE (`openssl rand -base64 32` makes one)"
            )
        return masters[0]

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[tuple[AsyncConnection, list[Standing], datetime]]:
        """Take turns with everybody else who changes keys."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            await signing_keys.lock(connection)
            now = await times.moment(connection, self.clock())
            yield connection, standings(await signing_keys.list_all(connection), now), now


class Signer:
    """The key that signs in this process; the last one used is kept open."""

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys
        self._open: SigningKey | None = None

    async def key(self, kid: str | None) -> SigningKey:
        """Return the settings' own key, else the one that the database names."""
        own = self._keys.material.own()
        if own is not None:
            return own.signing
        if not self._keys.material.masters():
            raise SigningKeyError(
                "tokens are not set up: set TENANTCRON_MASTER_KEY or TENANTCRON_SIGNING_KEY_FILE"
            )
        named = kid or await self._keys.first()
        if self._open is None or self._open.public.kid != named:
            self._open = await self._keys.find(named)
        return self._open


async def fault(keys: SigningKeys) -> str | None:
    """Return why nothing can be signed, None if all is well or no key was ever asked for."""
    try:
        own = keys.material.own()
        active = next((one for one in await keys.list_all() if one.state is KeyState.ACTIVE), None)
        if own is None and active is not None:
            await keys.find(active.row.kid)
    except TenantcronError as error:
        return str(error)
    return None
