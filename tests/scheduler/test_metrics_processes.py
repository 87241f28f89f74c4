"""The monitoring endpoints of a real scheduler: responses, names and bind address."""

import json
import re
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.fleet import Shell, manifest
from support.patience import PATIENCE
from support.ports import free_port
from support.processes import Fleet, executions, make_due, until
from support.promtool import promtool
from support.scraping import Scraped, get, read, until_served

from tenantcron.scheduler.metrics.prometheus import METRICS, REQUESTS, STANDBY_LAG, MetricType
from tenantcron.scheduler.metrics.server import METRICS_TYPE

HANDLERS = '''
"""Handlers that end in several ways."""
from contextlib import suppress
from tenantcron import Fail, Retry, TokenError, saga
from tenantcron.scheduler.metrics import prometheus
from tenantcron.scheduler.replica import polling_loops

# No notification is sent when a test makes a cursor due.
polling_loops.LONGEST_SLEEP = 0.05
prometheus.FRESH_SECONDS = 0.0

@saga("quick")
async def quick(execution):
    pass

@saga("hopeless")
async def hopeless(execution):
    raise Fail("a customer's name that must not become a label")

@saga("patient")
async def patient(execution):
    raise Retry("not now", after=600)

@saga("bearer")
async def bearer(execution):
    with suppress(TokenError):
        await execution.token("  ")
'''
SAGAS = ("quick", "hopeless", "patient", "bearer")
DURATIONS = "execution_duration_seconds"
OPTIONS = {
    "TENANTCRON_METRICS_BUSIEST_TENANTS": "3",
    "TENANTCRON_METRICS_AUDIT_INTERVAL": "1m",
    "TENANTCRON_METRICS_LABELS": "tier",
}
# The units that promtool accepts as suffixes.
UNITS = re.compile(r"_(seconds|bytes|ratio)(_total)?$")
WRONG_UNITS = re.compile(r"_(ms|milliseconds|minutes|hours|days|percent|kilobytes)(_|$)")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, port: int) -> Iterator[Fleet]:
    """A tenant with a schedule per handler; the test makes them due."""
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    common = 'cron: "0 0 1 1 *", start_within: 1h, retry: {max_attempts: 3}'
    text = manifest("acme", dict.fromkeys(SAGAS, common))
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    assert shell("tenant", "label", "acme", "tier=gold").code == 0
    options = ("--handlers", "work", "--metrics-port", str(port))
    fleet = Fleet(shell, database_url, *options, **OPTIONS)
    try:
        yield fleet
    finally:
        fleet.close()


def scrape(port: int) -> Scraped:
    status, kind, text = get(port, "/metrics")
    assert (status, kind) == (200, METRICS_TYPE)
    return read(text)


def test_a_scheduler_exports_all_metrics_that_the_page_lists(fleet: Fleet, port: int) -> None:
    fleet.start()
    until_served(port)
    until(lambda: make_due(fleet.url, SAGAS[0]) is not None)
    for saga in SAGAS[1:]:
        assert make_due(fleet.url, saga)
    expected = Counter(SUCCEEDED=2, DEAD=1, RETRYING=1)
    until(lambda: Counter(row["state"] for row in executions(fleet.url)) == expected)
    until(lambda: scrape(port).value("retention_margin_seconds") is not None)
    until(lambda: scrape(port).value("audit_last_run_timestamp_seconds") is not None)
    # An end is counted after the commit, so the row is visible earlier than the count.
    until(lambda: sum(scrape(port).values(f"{DURATIONS}_count", "outcome").values()) == 4)

    scraped = scrape(port)
    # The API exports its requests, and the database of the test has no standby.
    elsewhere = {REQUESTS.full_name, STANDBY_LAG.full_name}
    assert scraped.names == {metric.full_name for metric in METRICS} - elsewhere
    assert scraped.value("executions_fired_total") == 4
    assert scraped.value("executions_total", state="SUCCEEDED", reason="none") == 2
    assert scraped.value("executions_total", state="DEAD", reason="failed") == 1
    assert scraped.value(f"{DURATIONS}_count", outcome="SUCCEEDED") == 2
    assert scraped.value(f"{DURATIONS}_count", outcome="FAILED") == 2
    assert scraped.value("execution_lateness_seconds_count") == 4
    assert scraped.value("token_mint_failures_total", reason="audience") == 1
    assert scraped.value("executions_pending", priority="medium") == 1
    assert scraped.value("tenant_executions_pending", tenant="acme") == 1
    assert scraped.value("replicas") == 1
    assert (scraped.value("refresh_duration_seconds_count") or 0) >= 1
    margin = scraped.value("retention_margin_seconds")
    assert margin is not None
    assert 80_000 < margin < 86_400
    labels = {value for _, pairs in scraped.samples for _, value in pairs}
    assert not [value for value in labels if "customer" in value]


def test_names_and_help_texts_follow_the_conventions_of_prometheus(fleet: Fleet, port: int) -> None:
    fleet.start()
    until_served(port)
    _, _, text = get(port, "/metrics")
    for metric in METRICS:
        name = metric.full_name
        assert re.fullmatch(r"tenantcron_[a-z]+(_[a-z]+)*", name)
        assert (metric.type is MetricType.COUNTER) == name.endswith("_total"), name
        assert not WRONG_UNITS.search(name), name
        assert metric.type is not MetricType.HISTOGRAM or UNITS.search(name), name
        assert not re.search(r"_(count|sum|bucket|info)$", name), name
        assert metric.help.endswith("."), name
    for line in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE):
        assert re.search(rf"^# HELP {line} \S", text, re.MULTILINE), line
    checked = subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr, checked.stdout) == (0, "", "")


def test_the_other_endpoints_are_for_probes(fleet: Fleet, port: int) -> None:
    process = fleet.start()
    until_served(port)
    assert get(port, "/healthz")[::2] == (200, "healthy\n")
    assert get(port, "/readyz")[::2] == (200, "ready\n")
    assert get(port, "/metrics", "HEAD")[::2] == (200, "")
    assert get(port, "/metrics?from=here")[0] == 200
    assert get(port, "/secrets")[0] == 404
    assert get(port, "/metrics", "POST")[0] == 405
    with socket.create_connection(("127.0.0.1", port)) as rude:
        # The server closes a connection with too long a head, maybe before all of it is sent.
        with suppress(ConnectionError):
            rude.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 70_000)
        assert rude.recv(100).startswith(b"HTTP/1.1 431 ")
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_the_default_bind_address_is_loopback(fleet: Fleet, port: int) -> None:
    fleet.start()
    until_served(port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port)).close()
    fleet.close()
    fleet.running.clear()
    fleet.variables["TENANTCRON_METRICS_HOST"] = "0.0.0.0"  # noqa: S104 -- what is tested
    fleet.start()
    until_served(port)
    socket.create_connection(("127.0.0.2", port)).close()


def test_a_port_that_is_invalid_or_in_use_is_an_error(fleet: Fleet, port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = fleet.shell("run", "--once", "--metrics-port", str(port))
    assert done.code == 2
    assert f"cannot serve metrics at 127.0.0.1:{port}: " in done.err
    assert "in use" in done.err
    for wrong in ("http", "65536", "-1", "9 0"):
        done = fleet.shell("run", "--once", f"--metrics-port={wrong}")
        assert done.code == 2
        assert f"--metrics-port: {wrong!r} is not a whole number from 0 to 65535" in done.err


def test_without_a_port_the_client_library_is_not_imported(fleet: Fleet) -> None:
    (fleet.shell.folder / "looks.py").write_text(
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps('prometheus_client' in sys.modules)))\n",
        encoding="utf-8",
    )
    process = fleet.shell.start(
        "run", "--handlers", "looks", "--once", PYTHONPATH=str(fleet.shell.folder)
    )
    out, _ = process.communicate(timeout=PATIENCE)
    assert json.loads(out) is False
