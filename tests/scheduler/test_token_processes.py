"""Real schedulers and real services: calls with tokens, and authorisation of owners.

The receivers verify tokens with a key set that they fetch, and do their work once per key.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest
from support.database import Server
from support.fleet import Shell
from support.processes import Fleet, all_ended, executions, make_due, query, until
from support.receivers import published, running

from tenantcron.actor.key_sets import FetchedKeys
from tenantcron.actor.verification import InvalidTokenError, Proof, Verifier

MASTER_KEY = os.urandom(32).hex()
BILLING = "https://billing.internal"
POLICY = "https://policy.internal"


@dataclass(frozen=True, slots=True)
class Call:
    """A request with a valid token."""

    proof: Proof
    key: str | None
    owner: str | None
    body: dict[str, object]


Reply = tuple[int, dict[str, object]]


@dataclass(slots=True)
class Receiver:
    """A service that verifies each token, and returns the response that the test sets."""

    url: str = ""
    verifier: Verifier | None = None
    reply: Callable[[Call], Reply] = lambda _: (200, {})
    calls: list[Call] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def receive(self, request: BaseHTTPRequestHandler) -> Reply:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        assert self.verifier is not None
        token = str(request.headers["Authorization"]).removeprefix("Bearer ")
        with self.lock:
            try:
                proof = self.verifier.verify(token)
            except InvalidTokenError as error:
                self.refused.append(error.refusal)
                return 401, {}
            owner = request.headers["X-Tenantcron-Owner"]
            call = Call(proof, request.headers["Idempotency-Key"], owner, body)
            self.calls.append(call)
            return self.reply(call)


@contextmanager
def receiving(keys: str, audience: str | None = None) -> Iterator[Receiver]:
    """Serve on loopback; the default audience is the origin of the service."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        """Hands over to the receiver."""

        def do_POST(self) -> None:
            status, body = receiver.receive(self)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    receiver.verifier = Verifier(
        keys=FetchedKeys(keys), issuer="tenantcron", audience=audience or receiver.url
    )
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def saga(name: str, url: str, auth: str, timing: str = "") -> str:
    scheduled = (
        f'cron: "0 0 1 1 *", start_within: 1h, timeout: 10s, payload: {{amount: 120}}{timing}'
    )
    retry = "retry: {max_attempts: 20, backoff: 1s, max_backoff: 1s}"
    return (
        f"  - name: {name}\n    trigger:\n      scheduled: {{{scheduled}, {retry}}}\n"
        f"    target:\n      http: {{url: '{url}', auth: {auth}}}\n"
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a database and the site of its public keys."""

    shell: Shell
    url: str
    keys: str

    def apply(self, *sagas: str, ports: list[int]) -> None:
        """Let acme have these sagas, and the scheduler call these ports of loopback."""
        policy = (
            '[policy]\nallowed_hosts = ["http://127.0.0.1"]\n'
            f'allowed_networks = ["127.0.0.0/8"]\nallowed_ports = {sorted(ports)}\n'
            f'allowed_audiences = ["{BILLING}"]\n'
        )
        (self.shell.folder / "tenantcron.toml").write_text(policy, encoding="utf-8")
        text = f'version: "1.0"\ntenant: acme\nsagas:\n{"".join(sagas)}'
        (self.shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
        applied = self.shell("apply-manifest", "acme.yaml", "--create-tenants")
        assert applied.code == 0, applied

    @contextmanager
    def scheduler(self, **variables: str) -> Iterator[Fleet]:
        """Run one until the end of the block."""
        fleet = Fleet(self.shell, self.url, **variables)
        process = fleet.start()
        try:
            until(lambda: fleet.is_up(process))
            yield fleet
        finally:
            fleet.close()


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Iterator[Place]:
    """Signing keys, and a site with their public keys."""
    shell = Shell(tmp_path, database_url)
    assert shell("keys", "rotate", TENANTCRON_MASTER_KEY=MASTER_KEY).code == 0
    public = tmp_path / "public"
    public.mkdir()
    printed = shell("keys", "jwks", TENANTCRON_MASTER_KEY=MASTER_KEY).out
    (public / "jwks.json").write_text(printed, encoding="utf-8")
    with published(public) as site:
        yield Place(shell, database_url, f"{site}/jwks.json")


def port(url: str) -> int:
    return int(url.rpartition(":")[2])


def due(url: str, name: str) -> None:
    until(lambda: make_due(url, name) is not None)


def test_calls_carry_valid_tokens_for_both_audiences_and_have_one_effect(
    place: Place, server: Server
) -> None:
    with (
        receiving(place.keys) as by_origin,
        server.database("template1") as billing_url,
        running(billing_url, place.keys) as billing,
    ):
        done: list[str] = []

        def works_then_fails(call: Call) -> Reply:
            """Do the work once per key, and lose the first response."""
            assert call.key is not None
            if call.key in done:
                return 200, {"repeated": True}
            done.append(call.key)
            return 503, {}

        by_origin.reply = works_then_fails
        place.apply(
            saga("report", f"{by_origin.url}/run", "execution_token"),
            saga(
                "charge",
                f"{billing}/tenants/acme/run",
                f"{{execution_token: {{audience: '{BILLING}'}}}}",
            ),
            ports=[port(by_origin.url), port(billing)],
        )
        with place.scheduler(TENANTCRON_MASTER_KEY=MASTER_KEY):
            due(place.url, "report")
            due(place.url, "charge")
            until(lambda: len(executions(place.url)) == 2 and all_ended(place.url))
        charges = query(billing_url, "SELECT * FROM charge")

    rows = {row["schedule_name"]: row for row in executions(place.url)}
    assert {name: row["state"] for name, row in rows.items()} == {
        "report": "SUCCEEDED",
        "charge": "SUCCEEDED",
    }
    # The example, by its own audience: who has charged is proven, and it is this execution.
    (charged,) = charges
    assert (charged["charged_by"], charged["authenticated"]) == ("system:scheduler:scheduler", True)
    assert (charged["execution"], charged["amount"]) == (rows["charge"]["id"], 120)
    # The other, by its origin: two attempts with different tokens, one key, one effect.
    first, second = by_origin.calls
    assert by_origin.refused == []
    assert first.key == second.key == done[0]
    assert len(done) == 1
    assert first.proof.token_id != second.proof.token_id
    assert first.proof.execution == second.proof.execution == rows["report"]["id"]
    assert (first.proof.tenant, first.proof.owner, first.owner) == ("acme", None, None)
    assert rows["report"]["attempt"] == 2


def test_without_a_key_no_request_is_sent_and_the_next_attempt_succeeds(place: Place) -> None:
    with receiving(place.keys) as receiver:
        place.apply(
            saga("report", f"{receiver.url}/run", "execution_token"), ports=[port(receiver.url)]
        )
        with place.scheduler():
            due(place.url, "report")
            failed = "SELECT * FROM tenantcron.execution_attempt WHERE outcome = 'FAILED'"
            until(lambda: bool(query(place.url, failed)))
        assert (receiver.calls, receiver.refused) == ([], [])
        error = query(place.url, failed)[0]["error"]
        assert error.startswith(f"no execution token for {receiver.url}: no token: ")
        with place.scheduler(TENANTCRON_MASTER_KEY=MASTER_KEY):
            until(lambda: all_ended(place.url))
    (row,) = executions(place.url)
    assert (row["state"], len(receiver.calls), receiver.refused) == ("SUCCEEDED", 1, [])
    assert row["attempt"] >= 2


OWNED = ", owner: 'user:maria'"


def test_a_tenant_suspended_during_the_start_gets_no_token(place: Place) -> None:
    with receiving(place.keys) as receiver, receiving(place.keys, POLICY) as policy:

        def suspends_and_allows(_: Call) -> Reply:
            """The authoriser, which is called last before the target, suspends the tenant."""
            query(
                place.url,
                "UPDATE tenantcron.tenant SET status = 'suspended', status_reason = 'unpaid'",
            )
            return 200, {"allowed": True}

        policy.reply = suspends_and_allows
        place.apply(
            saga("report", f"{receiver.url}/run", "execution_token", OWNED),
            ports=[port(receiver.url), port(policy.url)],
        )
        with place.scheduler(
            TENANTCRON_MASTER_KEY=MASTER_KEY,
            TENANTCRON_OWNER_CHECK_URL=f"{policy.url}/may",
            TENANTCRON_OWNER_CHECK_AUDIENCE=POLICY,
        ):
            due(place.url, "report")
            until(lambda: bool(executions(place.url)) and all_ended(place.url))
    (row,) = executions(place.url)
    assert (row["state"], row["reason"]) == ("CANCELLED", "tenant suspended: unpaid")
    (attempt,) = query(place.url, "SELECT * FROM tenantcron.execution_attempt")
    assert attempt["outcome"] == "FAILED"
    assert attempt["error"] == (
        f"no execution token for {receiver.url}: no token: tenant acme is suspended"
    )
    assert (receiver.calls, receiver.refused) == ([], [])


def test_a_policy_service_receives_authenticated_requests(place: Place) -> None:
    with receiving(place.keys) as receiver, receiving(place.keys, POLICY) as policy:
        policy.reply = lambda call: (
            (403, {"reason": "has left"})
            if call.body["saga"] == "second"
            else (200, {"allowed": True})
        )
        place.apply(
            saga("first", f"{receiver.url}/run", "execution_token", OWNED),
            saga("second", f"{receiver.url}/run", "execution_token", OWNED),
            saga("third", f"{receiver.url}/run", "execution_token"),
            ports=[port(receiver.url), port(policy.url)],
        )
        with place.scheduler(
            TENANTCRON_MASTER_KEY=MASTER_KEY,
            TENANTCRON_OWNER_CHECK_URL=f"{policy.url}/may",
            TENANTCRON_OWNER_CHECK_AUDIENCE=POLICY,
        ):
            for name in ("first", "second", "third"):
                due(place.url, name)
            until(lambda: len(executions(place.url)) == 3 and all_ended(place.url))
    rows = {row["schedule_name"]: row for row in executions(place.url)}
    assert {name: (row["state"], row["reason"]) for name, row in rows.items()} == {
        "first": ("SUCCEEDED", None),
        "second": ("SKIPPED", "owner user:maria may not: has left"),
        "third": ("SUCCEEDED", None),
    }
    # The execution without an owner was not authorised; each request proves its execution.
    assert {call.body["saga"] for call in policy.calls} == {"first", "second"}
    for call in policy.calls:
        assert call.proof.owner == call.body["owner"] == "user:maria"
        assert str(call.proof.execution) == call.body["execution_id"]
        assert call.proof.actor.id == "system:scheduler:scheduler"
    owners = {call.body["saga"]: (call.owner, call.proof.owner) for call in receiver.calls}
    assert owners == {"first": ("user:maria", "user:maria"), "third": (None, None)}
    assert (receiver.refused, policy.refused) == ([], [])
