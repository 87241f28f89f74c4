"""`tenantcron serve` as a process, and its OpenAPI description as a contract."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from support.database import Server
from support.fleet import Shell
from support.patience import PATIENCE
from support.serve_process import serving

ROLE_LESS = "plain_deploy"


def events(text: str) -> dict[str, dict[str, object]]:
    lines = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return {line["event"]: line for line in lines}


def test_the_server_runs_until_a_signal_and_logs_its_start(
    database_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, database_url)
    token = json.loads(shell("token", "create", "ci", "--role", "viewer", "--format", "json").out)[
        "token"
    ]
    with serving(shell) as (url, process):
        got = httpx.get(
            f"{url}/v1/tenants", headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE
        )
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)

    assert got.json() == {"tenants": [], "next": None}
    logged = events(err)
    assert logged["api_started"]["row_level_security"] is True
    assert logged["api_started"]["address"] == url
    assert "api_stopped" in logged
    assert "api_anonymous" not in logged
    assert token not in err


def test_anonymous_access_is_logged_at_the_start(database_url: str, tmp_path: Path) -> None:
    with serving(Shell(tmp_path, database_url), "--anonymous") as (url, process):
        got = httpx.get(f"{url}/v1/tenants", timeout=PATIENCE)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)

    assert got.status_code == 200
    assert "api_anonymous" in events(err)


def test_a_used_port_is_reported_at_once_without_a_start_event(
    database_url: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        called = Shell(tmp_path, database_url)("serve", "--port", port)

    assert called.code == 2
    advice = "the port is in use: stop the other program, or choose another --port"
    assert f"error: cannot listen on 127.0.0.1:{port}: {advice}\n" in called.err
    assert "Errno" not in called.err
    assert "api_started" not in called.err
    assert "Started server process" not in called.err


def test_an_unread_log_does_not_block_the_server(database_url: str, tmp_path: Path) -> None:
    with (
        serving(Shell(tmp_path, database_url), "--anonymous") as (url, process),
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        # Several times the size of a pipe.
        codes = {client.get("/healthz").status_code for _ in range(1_000)}
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)

    assert codes == {200}
    assert "api_started" in events(err)


@pytest.fixture
def plain_url(server: Server) -> Iterator[str]:
    """A database whose owner may neither create roles nor use that of the API."""
    with server.database("template1") as url:
        name = urlsplit(url).path.removeprefix("/")
        server.execute("CREATE ROLE {} LOGIN", ROLE_LESS)
        try:
            server.execute("GRANT CREATE ON DATABASE {} TO {}", name, ROLE_LESS)
            yield urlunsplit(urlsplit(url)._replace(netloc=f"{ROLE_LESS}@"))
        finally:
            with psycopg.connect(url, autocommit=True) as owner:
                owner.execute(SQL("DROP OWNED BY {} CASCADE").format(Identifier(ROLE_LESS)))
            server.execute("DROP ROLE {}", ROLE_LESS)


def test_a_login_without_createrole_is_served_with_a_warning(
    plain_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, plain_url)
    assert shell("migrate").code == 0
    assert shell("tenant", "create", "acme").code == 0
    with serving(shell, "--anonymous") as (url, process):
        ready = httpx.get(f"{url}/readyz", timeout=PATIENCE)
        tenants = httpx.get(f"{url}/v1/tenants", timeout=PATIENCE)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)

    assert ready.json() == {"ready": True, "row_level_security": False}
    assert [row["tenant"] for row in tenants.json()["tenants"]] == ["acme"]
    assert "api_without_row_security" in events(err)


def test_it_is_not_ready_while_the_database_is_unreachable(server: Server, tmp_path: Path) -> None:
    with server.database("migrated") as url:
        shell = Shell(tmp_path, url)
        with serving(shell, "--anonymous") as (address, _):
            assert httpx.get(f"{address}/readyz", timeout=PATIENCE).status_code == 200
            name = urlsplit(url).path.removeprefix("/")
            server.execute("ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
            with psycopg.connect(server.url("postgres")) as session:
                end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
                session.execute(end, [name])
            away = httpx.get(f"{address}/readyz", timeout=PATIENCE)
            read = httpx.get(f"{address}/v1/tenants", timeout=PATIENCE)
            alive = httpx.get(f"{address}/healthz", timeout=PATIENCE)
    assert (away.status_code, read.status_code, alive.status_code) == (503, 503, 200)
    assert int(read.headers["retry-after"]) >= 1
    assert name not in read.text


@pytest.mark.parametrize("of", [("--role", "admin"), ("--role", "operator", "--tenant", "acme")])
def test_the_openapi_description_passes_schemathesis(
    database_url: str, tmp_path: Path, of: tuple[str, ...]
) -> None:
    """Send requests that match the description, and many that do not."""
    shell = Shell(tmp_path, database_url)
    shell("tenant", "create", "acme")
    (tmp_path / "acme.yaml").write_text(
        'version: "1.0"\ntenant: acme\n'
        'sagas: [{name: nightly, trigger: "scheduled:nightly:0 2 * * *"}]\n'
    )
    shell("apply-manifest", "acme.yaml")
    (tmp_path / "tenantcron.toml").write_text(
        '[settings]\napi_rate_limit = 100000\nlog_level = "warning"\n'
    )
    made = shell("token", "create", "fuzz", *of, "--format", "json")
    token = json.loads(made.out)["token"]
    with serving(Shell(tmp_path, database_url)) as (url, _):
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                f"--config-file={Path(__file__).with_name('schemathesis.toml')}",
                "run",
                f"{url}/openapi.json",
                "--header",
                f"Authorization: Bearer {token}",
                "--max-examples=10",
                "--seed=1",
                "--workers=1",
                "--phases=coverage,fuzzing",
                f"--request-timeout={PATIENCE}",
                # The time to generate examples does not matter for the API.
                "--suppress-health-check=too_slow",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
    assert done.returncode == 0, done.stdout[-20_000:]
