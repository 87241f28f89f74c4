"""The example of a receiving service, as it is: uvicorn on loopback, called by a real scheduler."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from psycopg.rows import DictRow
from support.database import Server
from support.fleet import Shell, manifest, query
from support.tokens import ISSUER, KEY, by_hand, payload, seconds, signed

from tenantcron.actor.keys import Algorithm, generate, jwks

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "receiver"
MASTER_KEY = os.urandom(32).hex()


@dataclass(frozen=True)
class Answer:
    """What the service said."""

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
    ) -> Answer:
        """Ask for a charge."""
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token is not None else {}
        headers |= {"Idempotency-Key": key} if key is not None else {}
        request = Request(  # noqa: S310 -- a server of the test's own
            f"{self.url}/tenants/{tenant}/charges",
            data=json.dumps({"amount": amount}).encode(),
            headers=headers,
        )
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=20) as answer:
                return Answer(answer.status, json.load(answer), "")
        except HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate", "")
            return Answer(error.code, json.load(error), challenge)

    def charges(self) -> list[DictRow]:
        """Return what was done."""
        return query(self.database_url, "SELECT * FROM charge ORDER BY id")


@contextmanager
def running(database_url: str, keys: str) -> Iterator[Service]:
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLE), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--factory", "service:create_app"],
        env=os.environ | {"BILLING_DATABASE_URL": database_url, "BILLING_KEYS": keys},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Service(_address(process), database_url)
    finally:
        process.terminate()
        process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
            return found[1]
    raise AssertionError("".join(said))


@pytest.fixture(scope="module")
def service(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with keys of the test's own, in a file."""
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_text(json.dumps(jwks([KEY.public])), encoding="utf-8")
    with server.database("template1") as url, running(url, str(file)) as started:
        yield started


@contextmanager
def published(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        """Says nothing."""

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_scheduler_charges_through_it_and_proves_who_it_is(
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
        running(url, f"{site}/jwks.json") as service,
    ):
        run = shell.start(
            *("run", "--once", "--handlers", "caller"),
            PYTHONPATH=str(EXAMPLE),
            BILLING_URL=service.url,
            TENANTCRON_MASTER_KEY=MASTER_KEY,
        )
        _, log = run.communicate(timeout=60)
        assert run.returncode == 0, log
        charged = service.charges()

    (execution,) = query(database_url, "SELECT id, state, reason FROM tenantcron.execution")
    assert (execution["state"], execution["reason"]) == ("SUCCEEDED", None), log
    (one,) = charged
    assert (one["tenant"], one["amount"], one["execution"]) == ("acme", 120, execution["id"])
    assert (one["charged_by"], one["authenticated"]) == ("system:scheduler:scheduler", True)


def test_the_same_key_is_the_same_charge_however_often_it_comes(service: Service) -> None:
    before = len(service.charges())
    answers = [service.charge(signed(payload()), key="again") for _ in range(3)]
    assert [one.status for one in answers] == [200] * 3
    assert [one.body["repeated"] for one in answers] == [False, True, True]
    assert len(service.charges()) == before + 1
    globex = service.charge(signed(payload(tenant="globex")), tenant="globex", key="again")
    assert globex.body["repeated"] is False


def test_the_same_key_for_something_else_is_refused(service: Service) -> None:
    assert service.charge(signed(payload()), key="mixed").status == 200
    assert service.charge(signed(payload()), key="mixed", amount=6).status == 422


def test_without_a_key_nothing_is_done(service: Service) -> None:
    before = service.charges()
    assert service.charge(signed(payload()), key=None).status == 422
    assert service.charges() == before


WRONG = {
    "no token": (None, ""),
    "an unsigned one": (by_hand({"alg": "none", "kid": KEY.public.kid}, payload()), "algorithm"),
    "an expired one": (signed(payload(exp=seconds(minutes=-5))), "expired"),
    "one for another service": (signed(payload(aud="https://ledger.internal")), "audience"),
    "one of an unknown key": (signed(payload(), generate(Algorithm.EDDSA)), "unknown-key"),
    "one of another issuer": (signed(payload(iss=f"not {ISSUER}")), "issuer"),
    "nonsense": ("nonsense", "malformed"),
}


@pytest.mark.parametrize("case", WRONG)
def test_without_proof_nothing_is_done_and_the_reason_is_told(service: Service, case: str) -> None:
    token, reason = WRONG[case]
    before = service.charges()
    answer = service.charge(token, key="forged")
    assert answer.status == 401
    assert answer.challenge.startswith("Bearer")
    assert reason in answer.challenge
    assert service.charges() == before


def test_a_token_of_one_tenant_does_not_open_the_path_of_another(service: Service) -> None:
    before = service.charges()
    assert service.charge(signed(payload(tenant="globex")), tenant="acme").status == 403
    assert service.charges() == before


def test_while_no_keys_can_be_had_it_says_that_it_is_unavailable(
    tmp_path: Path, empty_database_url: str
) -> None:
    with published(tmp_path) as site, running(empty_database_url, f"{site}/none.json") as service:
        answer = service.charge(signed(payload()))
    assert answer.status == 503
