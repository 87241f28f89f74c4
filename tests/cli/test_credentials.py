"""Passwords in URLs appear nowhere: not in output, logs or the database, whatever fails."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jwt
import psycopg
import pytest
from support.fleet import Called, Shell, manifest
from support.processes import query
from support.serving import YAML, api_on

from tenantcron.actor.key_sets import FetchedKeys, KeysUnavailableError
from tenantcron.core.settings import load_settings
from tenantcron.service.oidc_key_sets import IssuerKeySet
from tenantcron.store.connection.database_urls import target_of
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.webhooks import Webhook

# Parts of it are searched for, too: an error may quote a fragment.
PARTS = ("hunter2", "Xq7zq9")
PASSWORD = "Xq7zq9hunter2"  # noqa: S105 -- made up
# Characters that mean something in a URL, written as they must be and as they must not.
ODD = "Xq7zq9/@:%hunter2"
ENCODED = quote(ODD, safe="")
NOWHERE = "127.0.0.1:9"
REST = "connect_timeout=2"

Situation = Callable[[Shell], Called]


def with_url(url: str, *arguments: str) -> Situation:
    """Call a command with a database URL."""
    return lambda shell: shell(
        *(arguments or ("tenant", "list")),
        TENANTCRON_DATABASE_URL=url,
        TENANTCRON_LOG_LEVEL="debug",
    )


def with_server(server: str, **variables: str) -> Situation:
    return lambda shell: shell("plan", "acme.yaml", "--server", server, **variables)


def with_setting(arguments: tuple[str, ...], **variables: str) -> Situation:
    return lambda shell: shell(*arguments, TENANTCRON_LOG_LEVEL="debug", **variables)


def calling(url: str) -> str:
    """Return a manifest with a target."""
    return (
        'version: "1.0"\ntenant: acme\nsagas:\n  - name: work\n'
        f"    trigger: {{scheduled: {{every: 1h}}}}\n    target: {{http: {{url: '{url}'}}}}\n"
    )


def with_target(url: str, *arguments: str) -> Situation:
    """Check a manifest with a target."""

    def call(shell: Shell) -> Called:
        (shell.folder / "target.yaml").write_text(calling(url), encoding="utf-8")
        return shell(*(arguments or ("validate",)), "target.yaml")

    return call


def with_file(text: str) -> Situation:
    """Call a command with a settings file."""

    def call(shell: Shell) -> Called:
        file = shell.folder / "tenantcron.toml"
        before = file.read_text(encoding="utf-8")
        file.write_text(before + text, encoding="utf-8")
        try:
            return Shell(shell.folder)("tenant", "list")
        finally:
            file.write_text(before, encoding="utf-8")

    return call


DATABASE_URLS = {
    "an unreachable server": f"postgresql://ada:{PASSWORD}@{NOWHERE}/db?{REST}",
    "an encoded password": f"postgresql://ada:{ENCODED}@{NOWHERE}/db?{REST}",
    "several hosts": f"postgresql://ada:{PASSWORD}@{NOWHERE},127.0.0.1:10/db?{REST}",
    "several hosts and an encoded password": f"postgresql://ada:{ENCODED}@{NOWHERE},[::1]:9/db",
    "a host that has no address": f"postgresql://ada:{PASSWORD}@nowhere.invalid/db?{REST}",
    "a password as a parameter": f"postgresql://ada@{NOWHERE}/db?password={PASSWORD}",
    "a misspelt parameter": f"postgresql://ada@{NOWHERE}/db?passwrd={PASSWORD}",
    "a port that is none": f"postgresql://ada:{PASSWORD}@127.0.0.1:port/db",
    "a port that is too high": f"postgresql://ada:{PASSWORD}@127.0.0.1:99999/db",
    "a bare slash": "postgresql://ada:Xq7zq9/hunter2@127.0.0.1/db",
    "a bare slash after a number": "postgresql://ada:77/Xq7zq9hunter2@127.0.0.1/db",
    "a bare at sign": f"postgresql://ada:Xq7zq9@hunter2@{NOWHERE}/db?{REST}",
    "a bare percent sign": f"postgresql://ada:Xq7zq9%hunter2@{NOWHERE}/db",
    "a bare question mark": f"postgresql://ada:Xq7zq9?hunter2@{NOWHERE}/db",
    "brackets": f"postgresql://ada:{PASSWORD}@[::1/db",
    "another scheme": f"postgresql+psycopg://ada:{PASSWORD}@127.0.0.1/db",
    "no scheme": f"ada:{PASSWORD}@127.0.0.1/db",
    "quotes": f"'postgresql://ada:{PASSWORD}@127.0.0.1/db'",
    "a bad sslmode": f"postgresql://ada:{PASSWORD}@{NOWHERE}/db?sslmode=never",
    "a certificate that is not there": (
        f"postgresql://ada:{PASSWORD}@{NOWHERE}/db?sslmode=verify-full&sslrootcert=/none"
    ),
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("run", "--once"),
    ("serve", "--port", "1"),
    ("health",),
    ("why", "acme/work"),
    ("migrate",),
    ("migrate", "--check"),
    ("plan", "acme.yaml"),
    ("apply-manifest", "acme.yaml"),
    ("uninstall", "--confirm", "db"),
    ("keys", "list"),
)
QUERY_SECRET = f"https://127.0.0.1/x?token={PASSWORD}"

SITUATIONS: dict[str, Situation] = {
    **{f"database: {name}": with_url(url) for name, url in DATABASE_URLS.items()},
    **{
        f"database: {' '.join(command)}": with_url(
            DATABASE_URLS["several hosts and an encoded password"], *command
        )
        for command in COMMANDS
    },
    "file: an unreachable server": with_file(
        f'[settings]\ndatabase_url = "{DATABASE_URLS["an unreachable server"]}"\n'
    ),
    "file: a misspelt key": with_file(
        f'[settings]\ndatabse_url = "{DATABASE_URLS["an unreachable server"]}"\n'
    ),
    "file: not text": with_file(
        f'[settings]\ndatabase_url = ["{DATABASE_URLS["an unreachable server"]}"]\n'
    ),
    "file: not TOML": with_file(
        f"[settings]\ndatabase_url = {DATABASE_URLS['an unreachable server']}\n"
    ),
    "server: an unreachable one": with_server(f"http://ada:{PASSWORD}@{NOWHERE}"),
    "server: an encoded password": with_server(f"https://ada:{ENCODED}@{NOWHERE}"),
    "server: a port that is none": with_server(f"https://ada:{PASSWORD}@127.0.0.1:port"),
    "server: a bare slash": with_server("https://ada:Xq7zq9/hunter2@127.0.0.1"),
    "server: another scheme": with_server(f"ftp://ada:{PASSWORD}@127.0.0.1"),
    "server: a query": with_server(f"http://{NOWHERE}?token={PASSWORD}"),
    "server: over http with a token": with_server(
        f"http://ada:{PASSWORD}@cron.internal",
        TENANTCRON_TOKEN="tc_x",  # noqa: S106 -- not a token
    ),
    "proxy: an unreachable one": with_server(
        "https://cron.internal", HTTPS_PROXY=f"http://ada:{ENCODED}@{NOWHERE}"
    ),
    "proxy: a bare slash": with_server(
        "https://cron.internal", HTTPS_PROXY="http://ada:Xq7zq9/hunter2@127.0.0.1"
    ),
    "proxy: another scheme": with_server(
        "https://cron.internal", ALL_PROXY=f"gopher://ada:{PASSWORD}@127.0.0.1"
    ),
    "owner check: a user": with_setting(
        ("run", "--once"), TENANTCRON_OWNER_CHECK_URL=f"https://ada:{PASSWORD}@127.0.0.1/may"
    ),
    "owner check: a host that may not be called": with_setting(
        ("run", "--once"), TENANTCRON_OWNER_CHECK_URL=f"https://a.internal/may?token={PASSWORD}"
    ),
    "issuer: a user": with_setting(
        ("serve", "--port", "1"),
        TENANTCRON_OIDC_JWKS_URL=f"https://ada:{PASSWORD}@127.0.0.1/keys",
        TENANTCRON_OIDC_ISSUER="https://login.internal",
        TENANTCRON_OIDC_AUDIENCE="tenantcron",
    ),
    "issuer: without TLS": with_setting(
        ("serve", "--port", "1"), TENANTCRON_OIDC_JWKS_URL=f"http://ada:{PASSWORD}@a.internal/k"
    ),
    "webhook: a user": with_setting(
        ("webhook", "add", "ops", f"https://ada:{PASSWORD}@127.0.0.1/hook")
    ),
    "webhook: a host that may not be called": with_setting(
        ("webhook", "add", "ops", f"https://a.internal/hook?token={PASSWORD}")
    ),
    "webhook: the wrong order": with_setting(
        ("webhook", "add", f"https://ada:{PASSWORD}@127.0.0.1/hook", "ops")
    ),
    "command line: a URL in place of a command": with_setting(
        (DATABASE_URLS["an unreachable server"],)
    ),
    "command line: a URL as an argument too many": with_setting(
        ("run", DATABASE_URLS["an unreachable server"])
    ),
    "command line: a path": with_setting(("validate", f"https://ada:{PASSWORD}@127.0.0.1/x.yaml")),
    "target: a user": with_target(f"https://ada:{PASSWORD}@127.0.0.1/run"),
    "target: a bare slash": with_target("https://ada:Xq7zq9/hunter2@127.0.0.1/run"),
    "target: as JSON": with_target(
        f"https://ada:{PASSWORD}@127.0.0.1/", "validate", "--format", "json"
    ),
    "target: as SARIF": with_target(
        f"https://ada:{PASSWORD}@127.0.0.1/", "validate", "--format", "sarif"
    ),
    "target: as annotations": with_target(
        f"https://ada:{PASSWORD}@127.0.0.1/", "validate", "--format", "github"
    ),
    "target: applied": with_target(f"https://ada:{PASSWORD}@127.0.0.1/run", "apply-manifest"),
    "target: a query": with_target(QUERY_SECRET),
    "target: a query, applied": with_target(QUERY_SECRET, "apply-manifest"),
}


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    """A folder with a manifest and a policy, on a migrated database."""
    (tmp_path / "acme.yaml").write_text(manifest("acme", {"work": 'cron: "0 * * * *"'}))
    policy = '[policy]\nallowed_hosts = ["127.0.0.1"]\nallowed_networks = ["127.0.0.0/8"]\n'
    (tmp_path / "tenantcron.toml").write_text(policy, encoding="utf-8")
    return Shell(tmp_path, database_url)


def leaks(text: str) -> bool:
    return any(part in text for part in PARTS)


def everything(url: str, *without: str) -> str:
    """Return the content of the database as text, except for some tables."""
    tables = query(
        url,
        "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables"
        " WHERE schemaname LIKE 'tenant%'",
    )
    names = {str(table["name"]) for table in tables} - {f"tenantcron.{name}" for name in without}
    rows = [query(url, f"SELECT t::text AS row FROM {name} AS t") for name in sorted(names)]  # noqa: S608 -- of the catalog
    return "\n".join(str(row["row"]) for found in rows for row in found)


def test_a_password_in_a_url_is_shown_nowhere_whatever_fails(
    shell: Shell, database_url: str
) -> None:
    shown = {name: situation(shell) for name, situation in SITUATIONS.items()}
    assert {name: called for name, called in shown.items() if called.code == 0} == {}
    assert {name: called for name, called in shown.items() if leaks(called.out + called.err)} == {}
    # Each prints a message, and none ends with a traceback.
    assert [name for name, called in shown.items() if not (called.out + called.err).strip()] == []
    assert [name for name, called in shown.items() if "Traceback" in called.err] == []
    assert not leaks(everything(database_url))


HANDLERS = f"""
import logging
from tenantcron import Fail, saga

URL = "postgresql://ada:{ENCODED}@127.0.0.1/db?password={PASSWORD}"

@saga("raises")
async def raises(execution):
    logging.getLogger("library").info("connecting to %s", URL)
    try:
        raise OSError(f"cannot connect to {{URL}}")
    except OSError as error:
        raise RuntimeError(f"no ledger at {{URL}}") from error

@saga("owned")
async def owned(execution):
    raise AssertionError("not allowed")

@saga("fails")
def fails(execution):
    raise Fail(f"no ledger at {{URL}}")
"""
EVERY = 'cron: "0 * * * *", catch_up: all, catch_up_window: 6h, retry: {max_attempts: 1}'
SAGAS = {
    "raises": EVERY,
    "fails": EVERY,
    "owned": f"{EVERY}, owner: user:maria",
    # Each has its own definition, which the test edits.
    "edited": f"{EVERY}, description: edited",
    "broken": f"{EVERY}, description: broken",
}
MAKE_DUE = (
    "UPDATE tenantcron.schedule_cursor SET effective_from = now() - interval '1 day',"
    " next_run_at = date_trunc('hour', now())"
)
EDIT = (
    "UPDATE tenantcron.schedule_definition SET definition = definition || %(target)s::jsonb"
    " WHERE definition ->> 'description' = %(schedule)s"
)
TARGET = {"url": f"https://ada:{PASSWORD}@127.0.0.1/run"}
EDITED = {
    "edited": {**TARGET, "method": "POST", "headers": {}, "auth": "none"},
    "broken": TARGET,
}


def test_a_scheduler_neither_logs_nor_records_a_password_of_a_url(
    shell: Shell, database_url: str
) -> None:
    (shell.folder / "leaking_work.py").write_text(HANDLERS, encoding="utf-8")
    (shell.folder / "acme.yaml").write_text(manifest("acme", SAGAS), encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    assert shell("webhook", "add", "ops", QUERY_SECRET).code == 0
    # It makes the cursors, of schedules that are not due yet.
    assert shell("run", "--once").code == 0
    with psycopg.connect(database_url, autocommit=True) as session:
        for schedule, http in EDITED.items():
            target = json.dumps({"target": {"http": http}})
            session.execute(EDIT, {"target": target, "schedule": schedule})
        session.execute(MAKE_DUE)
    shown = [
        shell(
            *("run", "--handlers", "leaking_work", "--once"),
            TENANTCRON_LOG_LEVEL="debug",
            TENANTCRON_LOG_FORMAT=log_format,
            TENANTCRON_OWNER_CHECK_URL=f"https://127.0.0.1/may?token={PASSWORD}",
            PYTHONPATH=str(shell.folder),
        )
        for log_format in ("json", "console")
    ]
    shown.append(shell("webhook", "test", "ops"))
    shown.extend(shell("why", f"acme/{schedule}") for schedule in SAGAS)
    shown.extend(shell(*command) for command in (("health",), ("webhook", "list")))
    recorded = everything(database_url, "schedule_definition", "webhook")

    assert [called for called in shown if leaks(called.out + called.err)] == []
    assert not leaks(recorded)
    # The passwords were used: each command failed with a message.
    assert "no ledger at postgresql://***@127.0.0.1/db" in recorded
    assert "could not be checked" in recorded
    assert "the URL of the target is invalid" in recorded
    assert "has target" in recorded
    assert "connecting to postgresql://***@127.0.0.1/db" in shown[0].err


async def test_the_api_neither_logs_nor_answers_a_password_of_a_url(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {
        "oidc_issuer": "https://login.internal",
        "oidc_audience": "tenantcron",
        "oidc_jwks_url": f"http://{NOWHERE}/keys?token={PASSWORD}",
    }
    claims = {"sub": "ada"}
    bearer = jwt.encode(claims, "s" * 32, "HS256", headers={"kid": "one"})
    text = calling(f"https://ada:{PASSWORD}@127.0.0.1/run")
    async with api_on(database, tmp_path, **settings) as api:
        await api.tenants("acme")
        async with api.with_token(bearer) as stranger, await api.client("admin") as client:
            away = await stranger.get("/v1/tenants")
            planned = await client.post(
                "/v1/tenants/acme/manifest:plan", content=text, headers=YAML
            )
    output = capsys.readouterr()
    assert away.status_code == 503
    assert "TC401" in planned.text
    assert f"http://{NOWHERE}/keys" in output.out
    assert not leaks(output.out + output.err + away.text + planned.text)


def test_the_repr_of_objects_with_a_url_hides_its_password(tmp_path: Path) -> None:
    url = DATABASE_URLS["several hosts and an encoded password"]
    settings = replace(
        load_settings({"TENANTCRON_DATABASE_URL": url}, tmp_path),
        oidc_jwks_url=QUERY_SECRET,
        owner_check_url=QUERY_SECRET,
    )
    webhook = Webhook(name="ops", url=QUERY_SECRET, event_types=(), created_by="ada")
    shown = [settings, target_of(url), IssuerKeySet(QUERY_SECRET), webhook]
    assert [thing for thing in shown if leaks(f"{thing!r} {thing}")] == []


def test_a_receiver_names_the_issuer_without_its_password() -> None:
    keys = FetchedKeys(f"http://ada:{PASSWORD}@{NOWHERE}/keys?token={PASSWORD}")
    with pytest.raises(KeysUnavailableError) as caught:
        keys.find("one")
    assert f"http://{NOWHERE}/keys" in str(caught.value)
    assert not leaks(str(caught.value))
