"""Execution tokens: minted while the lease is held, refused with a reason after that."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from structlog.testing import capture_logs
from support.attempts import SETTINGS
from support.leases import keep_up
from support.minting import BILLING, TIMEOUT, kid_of, read, refusal
from support.scheduling import NOON, Scheduling

from tenantcron.actor.execution_tokens import lease_digest
from tenantcron.actor.keys import Algorithm, generate
from tenantcron.core.names import Owner
from tenantcron.core.settings import Settings
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.scheduler.tokens.token_minting import Minter, MintFailure
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.authorising import Allowed, AuthorisationRequest
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler, SourceLocation
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.tokens import TokenError


async def test_a_token_has_the_caller_the_audience_the_tenant_and_the_expiry(
    minter: Minter, keys: SigningKeys, claimed: Claimed
) -> None:
    claims = dict(await read(await minter(claimed, TIMEOUT).mint(BILLING), keys))

    assert UUID(str(claims.pop("jti"))).version == 4
    noon = int(NOON.timestamp())
    assert claims == {
        "iss": "https://cron.internal",
        # Not maria, who triggered it without authentication.
        "sub": "system:scheduler:scheduler",
        "aud": BILLING,
        "tenant": "acme",
        "roles": ["service"],
        "execution": str(claimed.id),
        "iat": noon,
        "nbf": noon,
        "exp": noon + 300,
        "attempt": 1,
        "lease": lease_digest(claimed.id, claimed.lease_token),
        "deadline": noon + int(TIMEOUT.total_seconds()),
    }


@dataclass(frozen=True)
class Life:
    """The lifetime of a token, in seconds from the start of its attempt."""

    ends: int
    timeout: timedelta = timedelta(hours=6)
    asked_after: int = 0
    lifetime: int = 300


LIVES = {
    "minutes by default": Life(300),
    "from when it is minted": Life(340, asked_after=40),
    "as the setting says": Life(3600, lifetime=3600),
    "not beyond a minute after the deadline": Life(180, timedelta(minutes=2)),
    "not beyond it when minted late": Life(180, timedelta(minutes=2), asked_after=40),
}


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
async def test_a_token_never_outlives_its_attempt(
    scheduling: Scheduling, settings: Settings, keys: SigningKeys, claimed: Claimed, life: Life
) -> None:
    own = replace(settings, token_lifetime=timedelta(seconds=life.lifetime))
    minter = Minter(scheduling.database, own, scheduling.clock)
    scheduling.clock.advance(seconds=life.asked_after)
    claims = await read(await minter(claimed, life.timeout).mint(BILLING), keys)
    assert claims["exp"] == int(NOON.timestamp()) + life.ends


async def test_a_token_has_the_owner_and_its_subject_is_the_scheduler(
    minter: Minter, keys: SigningKeys, claimed: Claimed
) -> None:
    claims = await read(await minter(claimed, TIMEOUT, Owner("user:maria")).mint(BILLING), keys)
    assert (claims["owner"], claims["sub"]) == ("user:maria", "system:scheduler:scheduler")
    assert "act" not in claims


async def test_a_handler_and_an_authoriser_get_tokens_with_the_owner(
    scheduling: Scheduling, minter: Minter, keys: SigningKeys, claimed: Claimed
) -> None:
    got: list[str] = []

    class Asking:
        """An authoriser that requests a token."""

        async def authorise(self, request: AuthorisationRequest) -> Allowed:
            got.append(await request.token("https://policy.internal"))
            return Allowed()

    async def ask(execution: Execution) -> None:
        got.append(await execution.token(BILLING))

    place = SourceLocation("m", "f", "x", 1)
    handlers = Handlers.of([Handler("work", ask, is_async=True, place=place)])
    transactions = HandlerTransactions(scheduling.database.target)
    connections = HandlerConnections(transactions)
    executor = Executor(handlers, connections, tokens=minter, authoriser=Asking())
    attempt = await executor.run(claimed, SETTINGS._replace(owner=Owner("user:maria")))
    await transactions.close()
    assert attempt.succeeded, attempt
    claims = [await read(token, keys) for token in got]
    assert [(entry["aud"], entry["owner"]) for entry in claims] == [
        ("https://policy.internal", "user:maria"),
        (BILLING, "user:maria"),
    ]


async def test_every_call_gets_a_new_token(
    scheduling: Scheduling, minter: Minter, keys: SigningKeys, claimed: Claimed
) -> None:
    tokens = minter(claimed, TIMEOUT)
    first = await read(await tokens.mint(BILLING), keys)
    scheduling.clock.advance(seconds=30)
    second = await read(await tokens.mint("https://ledger.internal"), keys)

    assert first["jti"] != second["jti"]
    assert (second["aud"], second["iat"]) == ("https://ledger.internal", int(first["iat"]) + 30)  # type: ignore[call-overload] # a number
    assert second["exp"] == int(first["exp"]) + 30  # type: ignore[call-overload] # as above
    assert minter.counts.minted == 2


async def test_a_long_saga_gets_tokens_while_its_lease_is_renewed(
    scheduling: Scheduling, minter: Minter, claimed: Claimed
) -> None:
    executor = running_forever(claimed)
    for _ in range(5):
        scheduling.clock.advance(seconds=40)
        await keep_up(scheduling.replica(), executor)
        assert await minter(claimed, TIMEOUT).mint(BILLING)

    scheduling.clock.advance(seconds=60)
    assert "no longer holds its lease" in await refusal(minter, claimed)


def running_forever(claimed: Claimed) -> Executor:
    """Return an executor that reports it as running, so that heartbeats renew its lease."""

    class Running(Executor):
        """An executor that runs nothing."""

        @property
        def running(self) -> tuple[Claimed, ...]:
            return (claimed,)

    return Running(Handlers.of([]), lambda _: pytest.fail("nothing is opened"))


async def test_there_is_no_token_after_the_end_of_the_attempt(
    scheduling: Scheduling, minter: Minter, claimed: Claimed
) -> None:
    await scheduling.finish(claimed)
    assert "no longer holds its lease" in await refusal(minter, claimed)


async def test_after_a_takeover_only_the_new_attempt_gets_tokens(
    scheduling: Scheduling, minter: Minter, claimed: Claimed
) -> None:
    scheduling.clock.advance(seconds=61)
    assert await recover_lost(scheduling.replica("two"))
    scheduling.clock.advance(seconds=60)
    (taken,) = (await scheduling.claim(scheduling.replica("two"))).started
    assert taken.id == claimed.id

    assert "another one may be running" in await refusal(minter, claimed)
    assert await minter(taken, TIMEOUT).mint(BILLING)


@pytest.mark.parametrize("status", ["suspended", "deprovisioned"])
async def test_an_inactive_tenant_gets_no_token(
    scheduling: Scheduling, minter: Minter, claimed: Claimed, status: str
) -> None:
    await minter(claimed, TIMEOUT).mint(BILLING)
    await scheduling.execute("UPDATE tenantcron.tenant SET status = :status", status=status)

    assert await refusal(minter, claimed) == f"no token: tenant acme is {status}"
    await scheduling.execute("UPDATE tenantcron.tenant SET status = 'active'")
    assert await minter(claimed, TIMEOUT).mint(BILLING)


async def test_a_suspended_identity_gets_no_token(
    scheduling: Scheduling, minter: Minter, claimed: Claimed
) -> None:
    await scheduling.execute("UPDATE tenantcron.identity SET status = 'suspended'")
    assert "system:scheduler:scheduler of acme is suspended" in await refusal(minter, claimed)


async def test_a_service_that_was_never_declared_has_no_identity(
    scheduling: Scheduling, settings: Settings, claimed: Claimed
) -> None:
    stranger = Minter(scheduling.database, replace(settings, service="billing"), scheduling.clock)
    assert "system:scheduler:billing of acme is unknown" in await refusal(stranger, claimed)


@pytest.mark.parametrize("audience", ["", " x", "a\nb", "a" * 256])
async def test_an_invalid_audience_gets_no_token(
    minter: Minter, claimed: Claimed, audience: str
) -> None:
    assert "is not an audience" in await refusal(minter, claimed, audience)


async def test_a_rotated_key_signs_in_a_running_scheduler_from_its_start(
    scheduling: Scheduling, minter: Minter, keys: SigningKeys, claimed: Claimed
) -> None:
    tokens = minter(claimed, timedelta(days=1))
    old = kid_of(await tokens.mint(BILLING))
    new = (await keys.rotate(Algorithm.ES256, timedelta(seconds=30))).row.kid
    assert kid_of(await tokens.mint(BILLING)) == old

    scheduling.clock.advance(seconds=30)
    token = await tokens.mint(BILLING)

    assert kid_of(token) == new
    assert (await read(token, keys))["tenant"] == "acme"
    assert jwt.get_unverified_header(token)["alg"] == "ES256"


async def test_a_retired_key_no_longer_signs(
    scheduling: Scheduling, minter: Minter, keys: SigningKeys, claimed: Claimed
) -> None:
    stolen = kid_of(await minter(claimed, TIMEOUT).mint(BILLING))
    scheduling.clock.advance(seconds=1)
    await keys.rotate(lead=timedelta(0))
    await keys.retire(stolen)

    token = await minter(claimed, TIMEOUT).mint(BILLING)

    assert kid_of(token) != stolen


async def test_a_key_of_the_settings_replaces_those_in_the_database(
    scheduling: Scheduling, settings: Settings, keys: SigningKeys, claimed: Claimed
) -> None:
    await keys.rotate()
    own = generate(Algorithm.EDDSA)
    pem = own.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    minter = Minter(scheduling.database, replace(settings, signing_key=pem), scheduling.clock)

    assert kid_of(await minter(claimed, TIMEOUT).mint(BILLING)) == own.public.kid


async def test_without_any_key_the_error_says_what_to_set(
    scheduling: Scheduling, claimed: Claimed, tmp_path: Path
) -> None:
    bare = Minter(scheduling.database, Settings(folder=tmp_path), scheduling.clock)
    assert "set TENANTCRON_MASTER_KEY or TENANTCRON_SIGNING_KEY_FILE" in await refusal(
        bare, claimed
    )
    assert await scheduling.rows("signing_key", "kid") == []


async def test_a_failure_is_counted_by_reason_and_logged_without_the_token(
    scheduling: Scheduling, minter: Minter, claimed: Claimed
) -> None:
    with capture_logs() as logs:
        token = await minter(claimed, TIMEOUT).mint(BILLING)
        await scheduling.execute("UPDATE tenantcron.tenant SET status = 'suspended'")
        await refusal(minter, claimed)
        await refusal(minter, claimed)
        await scheduling.execute("ALTER TABLE tenantcron.identity RENAME TO elsewhere")
        await refusal(minter, claimed)

    assert minter.counts.minted == 1
    assert minter.counts.failed == {MintFailure.TENANT: 2, MintFailure.DATABASE: 1}
    assert [line["reason"] for line in logs] == ["tenant", "tenant", "database"]
    assert logs[0] == {
        "event": "token_refused",
        "log_level": "warning",
        "tenant": "acme",
        "schedule": "work",
        "saga": "work",
        "execution": str(claimed.id),
        "attempt": 1,
        "audience": BILLING,
        "reason": "tenant",
        "error": "no token: tenant acme is suspended",
    }
    assert token not in str(logs)


async def test_many_concurrent_requests_get_a_token(
    scheduling: Scheduling, minter: Minter, keys: SigningKeys
) -> None:
    await scheduling.limit(60)
    await scheduling.waiting(60, tenant="acme")
    started = await scheduling.claim_all()

    tokens = await asyncio.gather(
        *(minter(execution, TIMEOUT).mint(BILLING) for execution in started)
    )

    claims = [await read(token, keys) for token in tokens]
    assert [entry["execution"] for entry in claims] == [str(claimed.id) for claimed in started]
    assert len({entry["jti"] for entry in claims}) == 60
    assert len(await keys.list_all()) == 1


async def test_combined_requests_are_checked_each_by_its_own_tenant(
    scheduling: Scheduling, minter: Minter, keys: SigningKeys
) -> None:
    for tenant in ("acme", "globex", "initech"):
        await scheduling.waiting(1, tenant=tenant)
    started = {execution.tenant_id: execution for execution in (await scheduling.claim()).started}
    assert len({execution.lease_token for execution in started.values()}) == 1
    await scheduling.execute(
        "UPDATE tenantcron.tenant SET status = 'suspended' WHERE id = 'globex'"
    )

    answers = await asyncio.gather(
        *(minter(execution, TIMEOUT).mint(BILLING) for execution in started.values()),
        return_exceptions=True,
    )

    got = dict(zip(started, answers, strict=True))
    assert str(got.pop("globex")) == "no token: tenant globex is suspended"  # type: ignore[call-overload] # a tenant
    for tenant, token in got.items():
        claims = await read(str(token), keys)
        assert (claims["tenant"], claims["execution"]) == (tenant, str(started[tenant].id))


async def test_combined_requests_fail_together_and_the_next_ones_succeed(
    scheduling: Scheduling, minter: Minter, claimed: Claimed
) -> None:
    tokens = minter(claimed, TIMEOUT)
    await scheduling.execute("ALTER TABLE tenantcron.identity RENAME TO elsewhere")
    answers = await asyncio.gather(
        *(tokens.mint(BILLING) for _ in range(5)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [TokenError] * 5
    assert minter.counts.failed[MintFailure.DATABASE] == 5

    await scheduling.execute("ALTER TABLE tenantcron.elsewhere RENAME TO identity")
    assert await tokens.mint(BILLING)


async def test_a_cancelled_request_does_not_affect_the_others(
    minter: Minter, claimed: Claimed
) -> None:
    tokens = minter(claimed, TIMEOUT)
    leaving, *staying = [asyncio.create_task(tokens.mint(BILLING)) for _ in range(4)]
    await asyncio.sleep(0)  # requested, but not answered
    leaving.cancel()

    assert len(set(await asyncio.gather(*staying))) == 3
    with pytest.raises(asyncio.CancelledError):
        await leaving
