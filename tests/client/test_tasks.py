"""Submitting tasks with the client, sync and async, to a real server."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from support.both_ways import json_of
from support.database import TEMPLATE, Server
from support.fleet import Shell, manifest, query
from support.serve_process import serving

from tenantcron.client import AsyncClient, Client, ProblemError, tasks
from tenantcron.client.tasks import Submission
from tenantcron.core.values import JsonObject

POLICY = '[policy]\nallowed_hosts = ["billing.internal"]\n'
TARGET: JsonObject = {"http": {"url": "https://billing.internal/run"}}
_ROWS = "SELECT * FROM tenantcron.task WHERE id = '{}'"


class Served:
    """A server, and the database behind it."""

    def __init__(self, shell: Shell, url: str, token: str) -> None:
        self.shell, self.url, self.token = shell, url, token

    def row(self, task: str) -> dict[str, object]:
        """Return the row of a task."""
        (row,) = query(str(self.shell.url), _ROWS.format(task))
        return row


@pytest.fixture(scope="module")
def served(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "acme.yaml").write_text(manifest("acme", {}), encoding="utf-8")
    (folder / "tenantcron.toml").write_text(POLICY, encoding="utf-8")
    with server.database(TEMPLATE) as database_url:
        shell = Shell(folder, database_url)
        assert shell("apply-manifest", ".", "--create-tenants").code == 0
        made = shell("token", "create", "shop", "--role", "submitter", "--format", "json")
        with serving(shell) as (url, _):
            yield Served(shell, url, str(json_of(made)["token"]))


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url, served.token) as client:
        yield client


def test_a_task_with_all_fields_is_stored_as_submitted(served: Served, client: Client) -> None:
    at = datetime(2030, 1, 1, 9, tzinfo=UTC)
    made = client.send(
        tasks.submit(
            "acme",
            Submission(
                saga="send_invoice",
                payload={"number": 7, "path": "C:\\u0000"},
                execute_at=at,
                priority="high",
                idempotency_key="invoice-7",
                timeout=timedelta(minutes=10),
                max_attempts=5,
                backoff=timedelta(seconds=20),
                max_backoff=timedelta(minutes=5),
                owner="user:maria",
                target=TARGET,
            ),
        )
    )

    assert (made["state"], made["existed"]) == ("WAITING", False)
    row = served.row(made["id"])
    assert (row["saga_name"], row["execute_at"], row["priority"]) == ("send_invoice", at, 1)
    assert row["payload"] == {"number": 7, "path": "C:\\u0000"}
    assert row["requires"] == "http"
    definition = row["definition"]
    assert isinstance(definition, dict)
    assert (definition["timeout"], definition["owner"]) == ("10m", "user:maria")
    assert definition["retry"] == {"max_attempts": 5, "backoff": "20s", "max_backoff": "5m"}


async def test_the_async_client_submits_a_batch_in_its_order(served: Served) -> None:
    later = timedelta(hours=1)
    async with AsyncClient(served.url, served.token) as client:
        made = await client.send(
            tasks.submit_many(
                "acme",
                [Submission(saga=f"s{number}", delay=later) for number in range(3)],
            )
        )

    assert [task["saga"] for task in made["tasks"]] == ["s0", "s1", "s2"]
    assert served.row(made["tasks"][2]["id"])["saga_name"] == "s2"


def test_a_target_without_a_saga_gives_its_kind(served: Served, client: Client) -> None:
    made = client.send(tasks.submit("acme", Submission(target=TARGET)))

    assert made["saga"] == "http"
    assert (served.row(made["id"])["saga_name"], made["state"]) == ("http", "PENDING")


def test_a_task_has_a_saga_or_a_target(client: Client) -> None:
    with pytest.raises(ProblemError) as raised:
        client.send(tasks.submit("acme", Submission()))
    assert raised.value.status == 422


def test_fractions_of_a_second_are_rounded_up(served: Served, client: Client) -> None:
    submission = Submission(
        saga="work", delay=timedelta(milliseconds=700), timeout=timedelta(seconds=1.5)
    )
    row = served.row(client.send(tasks.submit("acme", submission))["id"])

    at, submitted = row["execute_at"], row["submitted_at"]
    assert isinstance(at, datetime)
    assert isinstance(submitted, datetime)
    assert at - submitted == timedelta(seconds=1)
    assert row["definition"] == {"timeout": "2s"}


def test_the_same_key_returns_the_first_task_and_another_request_is_a_problem(
    client: Client,
) -> None:
    first = client.send(tasks.submit("acme", Submission(saga="a", idempotency_key="k")))
    again = client.send(tasks.submit("acme", Submission(saga="a", idempotency_key="k")))

    assert again == {**first, "existed": True}
    with pytest.raises(ProblemError) as raised:
        client.send(tasks.submit("acme", Submission(saga="b", idempotency_key="k")))
    assert (raised.value.code, raised.value.status) == ("TC731", 409)


def test_a_batch_with_a_bad_task_submits_nothing(client: Client) -> None:
    batch = [Submission(saga="a", idempotency_key="left-out"), Submission(saga="Bad Name")]
    with pytest.raises(ProblemError) as raised:
        client.send(tasks.submit_many("acme", batch))
    assert raised.value.status == 422

    made = client.send(tasks.submit("acme", batch[0]))
    assert made["existed"] is False
