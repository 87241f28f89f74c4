"""The example of a receiving service: uvicorn on loopback, called by a real scheduler."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from psycopg.rows import DictRow
from support.database import Server
from support.fleet import Shell, manifest, query
from support.patience import PATIENCE
from support.receivers import EXAMPLE, published, running
from support.tokens import ISSUER, KEY, forged, payload, seconds, signed

from tenantcron.actor.keys import Algorithm, generate, jwks

MASTER_KEY = os.urandom(32).hex()


@dataclass(frozen=True)
class ChargeResponse:
    """The response of the service."""

    status: int
    body: Any
    challenge: str


@dataclass(frozen=True)
class Service:
    """The running service and its database."""

    url: str
    database_url: str

    def charge(
        self, token: str | None, *, tenant: str = "acme", key: str | None = "one", amount: int = 5
    ) -> ChargeResponse:
        """Request a charge."""
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token is not None else {}
        headers |= {"Idempotency-Key": key} if key is not None else {}
        request = Request(  # noqa: S310 -- a server of the test
            f"{self.url}/tenants/{tenant}/charges",
            data=json.dumps({"amount": amount}).encode(),
            headers=headers,
        )
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
                return ChargeResponse(answer.status, json.load(answer), "")
        except HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate", "")
            return ChargeResponse(error.code, json.load(error), challenge)

    def charges(self) -> list[DictRow]:
        """Return the recorded charges."""
        return query(self.database_url, "SELECT * FROM charge ORDER BY id")


@pytest.fixture(scope="module")
def service(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with the keys of the test, in a file."""
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_text(json.dumps(jwks([KEY.public])), encoding="utf-8")
    with server.database("template1") as url, running(url, str(file)) as address:
        yield Service(address, url)


def test_a_scheduler_charges_through_it_and_is_authenticated(
    tmp_path: Path, database_url: str, server: Server
) -> None:
    shell = Shell(tmp_path, database_url)
    text = manifest("acme", {"charge": 'cron: "0 2 1 1 *"'})
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    assert shell("keys", "rotate", TENANTCRON_MASTER_KEY=MASTER_KEY).code == 0
    keys = tmp_path / "public"
    keys.mkdir()
    printed = shell("keys", "jwks", TENANTCRON_MASTER_KEY=MASTER_KEY).out
    (keys / "jwks.json").write_text(printed, encoding="utf-8")
    assert shell("schedule", "trigger", "acme/charge").code == 0

    with (
        published(keys) as site,
        server.database("template1") as url,
        running(url, f"{site}/jwks.json") as address,
    ):
        service = Service(address, url)
        run = shell.start(
            *("run", "--once", "--handlers", "caller"),
            PYTHONPATH=str(EXAMPLE),
            BILLING_URL=service.url,
            TENANTCRON_MASTER_KEY=MASTER_KEY,
        )
        _, log = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0, log
        charged = service.charges()

    (execution,) = query(database_url, "SELECT id, state, reason FROM tenantcron.execution")
    assert (execution["state"], execution["reason"]) == ("SUCCEEDED", None), log
    (charge,) = charged
    assert (charge["tenant"], charge["amount"], charge["execution"]) == (
        *("acme", 120),
        execution["id"],
    )
    assert (charge["charged_by"], charge["authenticated"]) == ("system:scheduler:scheduler", True)


def test_repeated_requests_with_the_same_key_are_one_charge(service: Service) -> None:
    before = len(service.charges())
    answers = [service.charge(signed(payload()), key="again") for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert [answer.body["repeated"] for answer in answers] == [False, True, True]
    assert len(service.charges()) == before + 1
    globex = service.charge(signed(payload(tenant="globex")), tenant="globex", key="again")
    assert globex.body["repeated"] is False


def test_the_same_key_for_another_charge_is_rejected(service: Service) -> None:
    assert service.charge(signed(payload()), key="mixed").status == 200
    assert service.charge(signed(payload()), key="mixed", amount=6).status == 422


def test_without_a_key_nothing_is_charged(service: Service) -> None:
    before = service.charges()
    assert service.charge(signed(payload()), key=None).status == 422
    assert service.charges() == before


# Created on demand: a token is valid for minutes, and the tests may run later.
WRONG: dict[str, tuple[Callable[[], str | None], str]] = {
    "no token": (lambda: None, ""),
    "an unsigned one": (
        lambda: forged({"alg": "none", "kid": KEY.public.kid}, payload()),
        "algorithm",
    ),
    "an expired one": (lambda: signed(payload(exp=seconds(minutes=-5))), "expired"),
    "one for another service": (
        lambda: signed(payload(aud="https://ledger.internal")),
        "audience",
    ),
    "one of an unknown key": (
        lambda: signed(payload(), generate(Algorithm.EDDSA)),
        "unknown-key",
    ),
    "one of another issuer": (lambda: signed(payload(iss=f"not {ISSUER}")), "issuer"),
    "nonsense": (lambda: "nonsense", "malformed"),
}


@pytest.mark.parametrize("case", WRONG)
def test_without_a_valid_token_nothing_is_charged_and_the_reason_is_returned(
    service: Service, case: str
) -> None:
    make_token, reason = WRONG[case]
    before = service.charges()
    answer = service.charge(make_token(), key="forged")
    assert answer.status == 401
    assert answer.challenge.startswith("Bearer")
    assert reason in answer.challenge
    assert service.charges() == before


def test_a_token_of_one_tenant_is_rejected_for_another(service: Service) -> None:
    before = service.charges()
    assert service.charge(signed(payload(tenant="globex")), tenant="acme").status == 403
    assert service.charges() == before


def test_without_keys_it_returns_503(tmp_path: Path, empty_database_url: str) -> None:
    with published(tmp_path) as site, running(empty_database_url, f"{site}/none.json") as address:
        answer = Service(address, empty_database_url).charge(signed(payload()))
    assert answer.status == 503
