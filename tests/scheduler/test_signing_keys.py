"""Signing keys: states, rotation, and keys that cannot be unsealed."""

import asyncio
import os
from datetime import timedelta

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.key_sets import FixedKeys
from tenantcron.actor.keys import Algorithm
from tenantcron.actor.model import Actor, ActorType
from tenantcron.actor.sealing import SealError
from tenantcron.core.key_leads import LEAD
from tenantcron.core.settings import Settings
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.signing_keys import (
    RETIRING,
    SigningKeyError,
    SigningKeys,
    key_statuses,
    signing_fault,
)
from tenantcron.store.rows.signing_keys import KeyRow

MARIA = Attribution(Actor("maria", ActorType.HUMAN, "cli"))
FIRST_MASTER, SECOND_MASTER = os.urandom(32).hex(), os.urandom(32).hex()
AT_ONCE = timedelta(0)


async def replace_at_once(
    scheduling: Scheduling, keys: SigningKeys, algorithm: Algorithm = Algorithm.EDDSA
) -> str:
    """Rotate to another key, a second after the previous one."""
    scheduling.clock.advance(seconds=1)
    return (await keys.rotate(algorithm, AT_ONCE)).row.kid


def keys_of(scheduling: Scheduling, master: str | None = FIRST_MASTER) -> SigningKeys:
    settings = Settings(folder=scheduling.settings.folder, master_key=master)
    return SigningKeys(scheduling.database, KeyMaterial(settings), MARIA, scheduling.clock)


@pytest.fixture
def keys(scheduling: Scheduling) -> SigningKeys:
    return keys_of(scheduling)


async def states(keys: SigningKeys) -> dict[str, str]:
    return {key.row.kid: key.state.value for key in await keys.list_all()}


async def published(keys: SigningKeys) -> set[str]:
    document = await keys.key_set()
    return {str(key["kid"]) for key in document["keys"]}  # type: ignore[index,union-attr,call-overload] # a key set


def row(kid: str, hours: float, *, is_retired: bool = False) -> KeyRow:
    """A key that becomes active so many hours after noon."""
    active = NOON + timedelta(hours=hours)
    return KeyRow(kid, "EdDSA", None, active, active, NOON if is_retired else None)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([row("a", 0)], ["active"]),
        ([row("a", 1)], ["next"]),
        ([row("a", -50), row("b", 1)], ["active", "next"]),
        ([row("a", -2), row("b", -1)], ["retiring", "active"]),
        ([row("a", -99), row("b", -24.9)], ["retiring", "active"]),
        ([row("a", -99), row("b", -25)], ["retired", "active"]),
        ([row("a", -3), row("b", -2, is_retired=True), row("c", -1)],
         ["retiring", "retired", "active"]),
        ([row("a", -3), row("b", -2, is_retired=True)], ["active", "retired"]),
        ([row("a", -1), row("b", -1)], ["retiring", "active"]),
    ],
)  # fmt: skip
def test_states_follow_from_times(rows: list[KeyRow], expected: list[str]) -> None:
    assert [key.state.value for key in key_statuses(rows[::-1], NOON)] == expected


async def test_the_first_key_signs_at_once(
    keys: SigningKeys,
) -> None:
    made = await keys.rotate()
    assert (made.state, made.row.active_from) == ("active", NOON)


async def test_a_key_is_published_before_it_signs_and_as_long_as_its_tokens_live(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    old = (await keys.rotate()).row.kid
    new = (await keys.rotate()).row.kid
    assert await states(keys) == {old: "active", new: "next"}
    assert await published(keys) == {old, new}

    scheduling.clock.advance(seconds=LEAD.total_seconds() - 1)
    assert await states(keys) == {old: "active", new: "next"}
    scheduling.clock.advance(seconds=1)
    assert await states(keys) == {old: "retiring", new: "active"}
    scheduling.clock.advance(seconds=RETIRING.total_seconds() - 1)
    assert await published(keys) == {old, new}
    scheduling.clock.advance(seconds=1)
    assert await states(keys) == {old: "retired", new: "active"}
    assert await published(keys) == {new}


async def test_the_private_key_of_a_retired_key_is_wiped_with_the_next_change(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    old = (await keys.rotate()).row.kid
    await replace_at_once(scheduling, keys)
    scheduling.clock.advance(hours=26)
    await keys.rotate()

    (gone,) = [row for row in await scheduling.rows("signing_key", "kid") if row["kid"] == old]
    assert (gone["sealed"], gone["sealed_by"]) == (None, None)
    assert gone["retired_at"] is not None


async def test_a_second_next_key_is_refused_and_changes_nothing(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    await keys.rotate()
    await keys.rotate()
    before = await scheduling.rows("signing_key", "kid")
    with pytest.raises(SigningKeyError, match="already published and signs from"):
        await keys.rotate()
    assert await scheduling.rows("signing_key", "kid") == before


async def test_in_an_emergency_a_new_key_signs_at_once_and_the_old_one_is_retired(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    old = (await keys.rotate()).row.kid
    with pytest.raises(SigningKeyError, match="keys rotate --now` to make another"):
        await keys.retire(old)
    new = await replace_at_once(scheduling, keys, Algorithm.ES256)
    await keys.retire(old)

    assert await states(keys) == {old: "retired", new: "active"}
    assert await published(keys) == {new}
    with pytest.raises(SigningKeyError, match="its private key was wiped"):
        await keys.find(old)
    with pytest.raises(SigningKeyError, match="is already retired"):
        await keys.retire(old)
    with pytest.raises(SigningKeyError, match="there is no key unknown"):
        await keys.retire("unknown")


async def test_retiring_the_next_key_keeps_the_active_one(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    active, following = (await keys.rotate()).row.kid, (await keys.rotate()).row.kid
    await keys.retire(following)
    scheduling.clock.advance(days=30)
    assert await states(keys) == {active: "active", following: "retired"}


async def test_concurrent_replicas_create_one_first_key(keys: SigningKeys) -> None:
    assert len(set(await asyncio.gather(*(keys.first() for _ in range(6))))) == 1


async def test_the_private_key_is_sealed_in_the_database_and_bound_to_its_name(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    first, second = (await keys.rotate()).row.kid, (await keys.rotate()).row.kid
    secret = (await keys.find(first)).secret()
    stored = await scheduling.rows("signing_key", "kid")
    assert all(secret[-32:] not in bytes(found["sealed"]) for found in stored)

    await scheduling.execute(
        "UPDATE tenantcron.signing_key SET sealed = (SELECT sealed FROM tenantcron.signing_key"
        " WHERE kid = :first) WHERE kid = :second",
        first=first,
        second=second,
    )
    with pytest.raises(SealError, match="its row was changed"):
        await keys.find(second)


async def test_a_key_inserted_without_the_master_key_is_not_published(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    await keys.rotate()
    stranger = keys_of(scheduling, SECOND_MASTER)
    await replace_at_once(scheduling, stranger)
    with pytest.raises(SealError, match="was sealed with the master key"):
        await keys.key_set()


async def test_changes_of_keys_are_recorded_without_the_private_key(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    old = (await keys.rotate()).row.kid
    await replace_at_once(scheduling, keys)
    await keys.retire(old)
    records = await scheduling.query(
        "SELECT * FROM tenantcron.audit_record WHERE entity_type = 'signing_key' ORDER BY id"
    )
    assert [record["operation"] for record in records] == ["create", "create", "update"]
    assert {record["changed_by"] for record in records} == {"maria"}
    assert all("sealed" not in record["after"] for record in records)


async def test_the_master_key_is_replaced_in_three_steps(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    old = (await keys.rotate()).row.kid
    new = (await keys.rotate()).row.kid
    both = keys_of(scheduling, f"{SECOND_MASTER},{FIRST_MASTER}")
    assert await published(both) == {old, new}

    assert await both.rewrap() == 2
    assert await both.rewrap() == 0

    assert await published(keys_of(scheduling, SECOND_MASTER)) == {old, new}
    with pytest.raises(SealError):
        await keys.key_set()


async def test_a_rewrap_that_cannot_unseal_a_key_changes_none(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    await keys.rotate()
    third = os.urandom(32).hex()
    await replace_at_once(scheduling, keys_of(scheduling, third))
    before = await scheduling.rows("signing_key", "kid")
    with pytest.raises(SealError):
        await keys_of(scheduling, f"{SECOND_MASTER},{FIRST_MASTER}").rewrap()
    assert await scheduling.rows("signing_key", "kid") == before


async def test_without_a_master_key_no_key_is_created(scheduling: Scheduling) -> None:
    with pytest.raises(SigningKeyError, match="set TENANTCRON_MASTER_KEY"):
        await keys_of(scheduling, None).rotate()
    assert await scheduling.rows("signing_key", "kid") == []


async def test_the_key_set_is_what_receivers_read(keys: SigningKeys) -> None:
    kid = (await keys.rotate(Algorithm.ES256)).row.kid
    found = FixedKeys(await keys.key_set()).find(kid)
    assert found == (await keys.find(kid)).public


async def test_health_reports_an_active_key_that_cannot_be_unsealed(
    scheduling: Scheduling, keys: SigningKeys
) -> None:
    assert await signing_fault(keys) is None
    await keys.rotate()
    assert await signing_fault(keys) is None
    assert "was sealed with" in str(await signing_fault(keys_of(scheduling, SECOND_MASTER)))
