"""Execution tokens at the API: introspection and renewal while their attempt runs."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from support.minting import BILLING, MARIA, read
from support.scheduling import NOON, Scheduling
from support.serving import Api, new_token, served

from tenantcron.actor.execution_tokens import lease_digest
from tenantcron.actor.introspection import Introspection
from tenantcron.actor.key_sets import FixedKeys
from tenantcron.actor.keys import Algorithm, generate
from tenantcron.actor.verification import InvalidTokenError, Verifier
from tenantcron.api.serving import open_service
from tenantcron.core.names import Owner
from tenantcron.core.settings import Settings
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.live_tokens import LiveTokens
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.scheduler.tokens.token_minting import Minter
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import api_usage
from tenantcron.store.steps.claiming import Claimed

NOON_SECONDS = int(NOON.timestamp())
LONG = timedelta(hours=6)
AS_JSON = {"Content-Type": "application/json"}


@dataclass
class World:
    """A scheduler's database with a running execution, and an API on it."""

    api: Api
    scheduling: Scheduling
    settings: Settings
    keys: SigningKeys
    claimed: Claimed

    async def token(self, **options: Any) -> str:
        settings = replace(self.settings, **options.pop("settings", {}))
        minter = Minter(self.scheduling.database, settings, self.scheduling.clock, ("charges",))
        timeout = options.pop("timeout", LONG)
        return await minter(self.claimed, timeout, Owner("user:maria")).mint(BILLING)

    async def asked(self, token: str, bearer: str | None = "") -> httpx.Response:
        """Ask about a token, by the token itself unless another bearer is given."""
        async with self.api.with_token(token if bearer == "" else bearer) as client:
            return await client.post("/v1/tokens:introspect", data={"token": token})

    async def is_active(self, token: str, bearer: str | None = "") -> bool:
        answer = await self.asked(token, bearer)
        assert answer.status_code == 200, answer.text
        active: bool = answer.json()["active"]
        # The response is the same for all inactive tokens.
        assert active or answer.json() == {"active": False}
        return active

    async def renewed(self, token: str | None) -> httpx.Response:
        async with self.api.with_token(token) as client:
            return await client.post("/v1/tokens:renew")

    async def keep_lease(self) -> None:
        """Renew the lease, as the replica that runs it does."""
        await self.scheduling.execute(
            "UPDATE tenantcron.execution SET lease_until = :until WHERE id = :id",
            until=self.scheduling.clock.now + timedelta(minutes=1),
            id=self.claimed.id,
        )

    async def later(self, **duration: float) -> None:
        """Let time pass in which the replica lives."""
        self.scheduling.clock.advance(**duration)
        await self.keep_lease()


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> AsyncIterator[World]:
    settings = Settings(
        folder=tmp_path,
        master_key=os.urandom(32).hex(),
        issuer="https://cron.internal",
        api_rate_limit=100_000,
    )
    scheduling = Scheduling(database, settings)
    await scheduling.prepare()
    await scheduling.waiting(1, tenant="acme")
    await scheduling.tenant("globex")
    (claimed,) = (await scheduling.claim()).started
    keys = SigningKeys(database, KeyMaterial(settings), MARIA, scheduling.clock)
    service = await open_service(database, settings, anonymous=False)
    live = LiveTokens(keys, settings, scheduling.clock)
    async with served(replace(service, live_tokens=live)) as url:
        yield World(Api(database, url, service), scheduling, settings, keys, claimed)


async def test_the_token_of_a_running_attempt_is_active_with_all_claims(world: World) -> None:
    token = await world.token()
    answer = await world.asked(token)
    assert answer.headers["cache-control"] == "no-store"
    claims = answer.json()
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "active": True,
        "token_type": "Bearer",
        "iss": "https://cron.internal",
        "sub": "system:scheduler:scheduler",
        "aud": BILLING,
        "iat": NOON_SECONDS,
        "nbf": NOON_SECONDS,
        "exp": NOON_SECONDS + 300,
        "tenant": "acme",
        "roles": ["service", "charges"],
        "execution": str(world.claimed.id),
        "attempt": 1,
        "deadline": NOON_SECONDS + 6 * 3600,
        "owner": "user:maria",
    }


async def test_a_token_may_come_as_json_too(world: World) -> None:
    token = await world.token()
    async with world.api.with_token(token) as client:
        answer = await client.post("/v1/tokens:introspect", json={"token": token})
    assert answer.json()["active"] is True


Ending = Callable[[World], Awaitable[object]]


async def succeed(world: World) -> None:
    await world.scheduling.finish(world.claimed)


async def lose_and_start_again(world: World) -> None:
    """Move the execution to another replica."""
    world.scheduling.clock.advance(minutes=2)
    await recover_lost(world.scheduling.replica())
    world.scheduling.clock.advance(minutes=1)
    (again,) = (await world.scheduling.claim(world.scheduling.replica("two"))).started
    assert again.id == world.claimed.id
    assert again.lease_token != world.claimed.lease_token


async def let_the_lease_run_out(world: World) -> None:
    world.scheduling.clock.advance(seconds=61)


async def expire(world: World) -> None:
    await world.later(seconds=300)


async def suspend(world: World) -> None:
    await world.scheduling.execute("UPDATE tenantcron.tenant SET status = 'suspended'")


async def suspend_identity(world: World) -> None:
    await world.scheduling.execute("UPDATE tenantcron.identity SET status = 'suspended'")


ENDINGS: dict[str, Ending] = {
    "the execution has ended": succeed,
    "another attempt runs": lose_and_start_again,
    "its lease has run out": let_the_lease_run_out,
    "it has expired": expire,
    "its tenant is suspended": suspend,
    "its identity is suspended": suspend_identity,
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
async def test_a_token_is_inactive_and_cannot_be_renewed_when(world: World, end: Ending) -> None:
    token = await world.token()
    reader = await new_token(world.api.database, "viewer", None)
    assert await world.is_active(token)
    await end(world)
    assert not await world.is_active(token)
    assert not await world.is_active(token, reader)
    refused = await world.renewed(token)
    assert (refused.status_code, refused.json()["code"]) == (401, "TC701")
    assert "not active" in refused.json()["detail"]


async def test_a_token_of_the_new_attempt_is_active_while_the_old_one_is_not(world: World) -> None:
    old = await world.token()
    await lose_and_start_again(world)
    (row,) = await world.scheduling.rows()
    world.claimed = world.claimed._replace(
        lease_token=row["lease_token"],
        started_at=row["started_at"],
        attempt=row["attempt"],
    )
    assert [await world.is_active(token) for token in (old, await world.token())] == [False, True]


async def test_a_foreign_token_is_inactive(world: World) -> None:
    token = await world.token()
    stranger = generate(Algorithm.EDDSA)
    claims = jwt.decode(token, options={"verify_signature": False})
    older = {name: claims[name] for name in claims if name not in ("lease", "attempt", "deadline")}
    (signing,) = [
        await world.keys.find(standing.row.kid) for standing in await world.keys.list_all()
    ]
    kid = {"kid": signing.public.kid}
    forged = [
        "",
        "words",
        "\u00fc",
        "\ud800",
        "a" * 10_000,
        token[:-4],
        jwt.encode(claims, stranger.private, "EdDSA", headers={"kid": stranger.public.kid}),
        jwt.encode(claims, stranger.private, "EdDSA", headers=kid),
        # From an earlier release, without the attempt; and of another attempt.
        jwt.encode(older, signing.private, "EdDSA", headers=kid),
        jwt.encode({**claims, "lease": "0" * 32}, signing.private, "EdDSA", headers=kid),
        jwt.encode({**claims, "iss": "elsewhere"}, signing.private, "EdDSA", headers=kid),
        jwt.encode({**claims, "aud": [BILLING]}, signing.private, "EdDSA", headers=kid),
    ]
    reader = await new_token(world.api.database, "viewer", None)
    async with world.api.with_token(reader) as client:
        for text in forged[1:]:
            body = json.dumps({"token": text})
            answer = await client.post("/v1/tokens:introspect", content=body, headers=AS_JSON)
            assert (answer.status_code, answer.json()) == (200, {"active": False}), text
        empty = await client.post("/v1/tokens:introspect", data={"token": ""})
    assert empty.status_code == 422


async def test_a_token_that_does_not_verify_cannot_ask_about_itself(world: World) -> None:
    token = await world.token()
    claims = jwt.decode(token, options={"verify_signature": False})
    stranger = generate(Algorithm.EDDSA)
    kid = {"kid": stranger.public.kid}
    for forged in ("words", token[:-4], jwt.encode(claims, stranger.private, "EdDSA", kid)):
        answer = await world.asked(forged)
        assert (answer.status_code, answer.json()["code"]) == (401, "TC701"), forged


async def test_a_bearer_that_is_not_ascii_is_refused(world: World) -> None:
    headers = [(b"Content-Type", b"application/json"), (b"Authorization", b"Bearer \xfc")]
    async with world.api.with_token(None) as client:
        answers = [
            await client.post(
                "/v1/tokens:introspect", content=json.dumps({"token": text}), headers=headers
            )
            for text in ("\u00fc", "u")
        ]
    assert [answer.status_code for answer in answers] == [401, 401]


async def test_another_caller_must_be_authenticated(world: World) -> None:
    token = await world.token()
    assert (await world.asked(token, None)).status_code == 401
    assert (await world.asked(token, "tc_nonsense")).status_code == 401
    other = await world.token()
    # A token can introspect only itself.
    assert (await world.asked(token, other)).status_code == 401


async def test_a_caller_that_is_bound_to_a_tenant_sees_tokens_of_that_tenant(world: World) -> None:
    token = await world.token()
    seen = {
        tenant: await world.is_active(token, await new_token(world.api.database, "viewer", tenant))
        for tenant in (None, "acme", "globex")
    }
    assert seen == {None: True, "acme": True, "globex": False}


BODIES = {
    "no body": ({}, 415),
    "another kind": ({"content": "token=x", "headers": {"Content-Type": "text/plain"}}, 415),
    "no token": ({"data": {"other": "x"}}, 422),
    "two tokens": ({"data": {"token": ["a", "b"]}}, 422),
    "too many fields": ({"data": {f"f{number}": "x" for number in range(50)}}, 422),
    "a list": ({"json": ["x"]}, 422),
    "a number": ({"json": {"token": 5}}, 422),
    "no JSON": ({"content": "{", "headers": {"Content-Type": "application/json"}}, 422),
}


@pytest.mark.parametrize(("request_", "status"), BODIES.values(), ids=BODIES)
async def test_an_invalid_body_is_rejected(
    world: World, request_: dict[str, Any], status: int
) -> None:
    async with world.api.with_token(await world.token()) as client:
        answer = await client.post("/v1/tokens:introspect", **request_)
    assert answer.status_code == status


async def test_an_active_token_is_renewed_with_the_same_claims(world: World) -> None:
    token = await world.token()
    await world.later(minutes=4)
    answer = await world.renewed(token)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    body = answer.json()
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 300)

    old, new = [dict(await read(text, world.keys)) for text in (token, body["access_token"])]
    changed = {name for name in old | new if old.get(name) != new.get(name)}
    assert changed == {"jti", "iat", "nbf", "exp"}
    assert new["exp"] == NOON_SECONDS + 4 * 60 + 300
    assert new["lease"] == lease_digest(*world.claimed.lease)
    # The old token stays valid, because a running request may carry it.
    assert await world.is_active(token)
    await world.later(minutes=2)
    assert not await world.is_active(token)
    assert await world.is_active(body["access_token"])


async def test_a_renewed_token_never_outlives_the_attempt(world: World) -> None:
    token = await world.token(timeout=timedelta(minutes=6))
    await world.later(minutes=4)
    first = (await world.renewed(token)).json()
    assert first["expires_in"] == 180
    await world.later(minutes=2, seconds=50)
    assert (await world.renewed(first["access_token"])).json()["expires_in"] == 10
    await world.later(seconds=10)
    assert (await world.renewed(first["access_token"])).status_code == 401


async def test_only_an_execution_token_is_renewed(world: World) -> None:
    admin = await new_token(world.api.database, "admin", None)
    for bearer in (None, "words", admin):
        assert (await world.renewed(bearer)).status_code == 401


async def test_requests_are_counted_by_execution(world: World) -> None:
    settings = replace(world.settings, api_rate_limit=2)
    service = await open_service(world.api.database, settings, anonymous=False)
    live = LiveTokens(world.keys, settings, world.scheduling.clock)
    async with served(replace(service, live_tokens=live)) as url:
        world.api = replace(world.api, url=url)
        token = await world.token()
        # A minute may end in between.
        codes = [(await world.asked(token)).status_code for _ in range(3)]
        codes += [(await world.renewed(token)).status_code for _ in range(3)]
        assert codes[-1] == 429
    rows = await world.scheduling.query("SELECT caller FROM tenantcron.api_usage")
    assert [row["caller"] for row in rows] == [f"execution:{world.claimed.id}"]


async def test_counts_of_callers_that_are_gone_are_forgotten(world: World) -> None:
    await world.is_active(await world.token())
    age = "UPDATE tenantcron.api_usage SET window_start = window_start - interval '2 hours'"
    async with world.api.database.transaction() as connection:
        assert await api_usage.forget_old(connection) == 0
    await world.scheduling.execute(age)
    async with world.api.database.transaction() as connection:
        assert await api_usage.forget_old(connection) == 1


async def test_a_receiver_that_asks_refuses_a_token_once_its_execution_has_ended(
    world: World,
) -> None:
    token = await world.token()
    verifier = Verifier(
        keys=FixedKeys(await world.keys.key_set()),
        issuer=world.settings.issuer,
        audience=BILLING,
        introspection=Introspection(f"{world.api.url}/v1/tokens:introspect", lifetime=timedelta(0)),
    )
    proof = await asyncio.to_thread(verifier.verify, token, now=NOON)
    assert (proof.execution, proof.attempt) == (world.claimed.id, 1)
    await world.scheduling.finish(world.claimed)
    with pytest.raises(InvalidTokenError, match="attempt has ended"):
        await asyncio.to_thread(verifier.verify, token, now=NOON)


async def test_a_server_without_keys_says_so(database: Database, tmp_path: Path) -> None:
    service = await open_service(database, Settings(folder=tmp_path), anonymous=False)
    headers = {"Authorization": "Bearer x"}
    async with served(service) as url, httpx.AsyncClient(base_url=url) as client:
        answers = [
            await client.post("/v1/tokens:introspect", data={"token": "x"}, headers=headers),
            await client.post("/v1/tokens:renew", headers=headers),
        ]
        unknown = [
            await client.post("/v1/tokens:introspect", data={"token": "x"}),
            await client.post("/v1/tokens:renew"),
        ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert [answer.status_code for answer in unknown] == [401, 401]
    assert all("master key" in answer.json()["detail"] for answer in answers)


async def test_a_key_that_is_retired_verifies_nothing_within_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.scheduler.tokens.live_tokens._KEPT_FOR", 0.0)
    token = await world.token()
    assert await world.is_active(token)
    old = jwt.get_unverified_header(token)["kid"]
    await world.later(seconds=1)
    await world.keys.rotate(lead=timedelta(0))
    await world.keys.retire(old)
    assert (await world.asked(token)).status_code == 401
    reader = await new_token(world.api.database, "viewer", None)
    assert not await world.is_active(token, reader)
    assert await world.is_active(await world.token())
