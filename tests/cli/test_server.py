"""`plan` and `apply-manifest` have the same output and effect on a server and a database."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.database import TEMPLATE, Server
from support.fleet import NIGHTLY, Called, Shell, manifest, names, numbered, query
from support.serving import Api, api_on, new_token

from tenantcron.core.settings import Settings
from tenantcron.manifests.policy import load_policy
from tenantcron.manifests.policy_digests import policy_digest
from tenantcron.store.connection.engine import open_database

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00")
# A server names its policy; without a policy file, a database has the default policy.
CHECKED = re.compile(r'checked with the policy of .*\n|  "policies": \[[^]]*\],\n')
# How far off an execution is; a minute may end between two answers.
AWAY = re.compile(r"\bin (\d+ (d|h|min|s) ?)+")


@dataclass(frozen=True, slots=True)
class Both:
    """Two equal databases: one is used directly, one through a server."""

    direct: Shell
    direct_url: str
    served_url: str
    api: Api
    folder: Path

    async def __call__(self, *arguments: str, **variables: str) -> tuple[Called, Called]:
        """Call a command on both."""
        token = await new_token(self.api.database, "admin")
        here = await asyncio.to_thread(self.direct, *arguments, **variables)
        there = await asyncio.to_thread(self.on_server, *arguments, token=token, **variables)
        return here, there

    def on_server(self, *arguments: str, token: str | None = None, **variables: str) -> Called:
        if token:
            variables["TENANTCRON_TOKEN"] = token
        # A separate process: the server of the tests logs to the output of this one.
        started = Shell(self.folder).start(*arguments, "--server", self.api.url, **variables)
        out, err = started.communicate()
        return Called(started.returncode, out, err)


@pytest.fixture
async def both(server: Server, tmp_path: Path) -> AsyncIterator[Both]:
    with server.database(TEMPLATE) as direct, server.database(TEMPLATE) as served:
        settings = Settings(database_url=served, folder=tmp_path)
        async with open_database(settings) as database, api_on(database, tmp_path) as api:
            yield Both(Shell(tmp_path, direct), direct, served, api, tmp_path)


def write(folder: Path, manifests: Mapping[str, str]) -> None:
    for name, body in manifests.items():
        (folder / name).write_text(body, encoding="utf-8")


def without_times(text: str) -> str:
    """Return a response without what differs: times, and who checked it."""
    return AWAY.sub("AWAY", TIME.sub("TIME", CHECKED.sub("", text)))


STEPS = {
    "a plan for a tenant that is not there": ["plan", "acme.yaml"],
    "a plan that would create it": ["plan", "acme.yaml", "--create-tenants", "--detailed-exitcode"],
    "an apply": ["apply-manifest", "acme.yaml", "beta.json", "--create-tenants"],
    "a dry run": ["apply-manifest", "acme.yaml", "--dry-run"],
    "the same again": ["apply-manifest", "acme.yaml", "beta.json"],
    "nothing to change": ["plan", "acme.yaml", "--detailed-exitcode"],
    "a broken one beside a good one": ["apply-manifest", "broken.yaml", "acme.yaml"],
    "one that cannot be read": ["plan", "nonsense.yaml"],
    "two files of one tenant": ["plan", "acme.yaml", "again.yaml"],
    "another tenant asked for": ["plan", "acme.yaml", "--tenant", "beta"],
    "no file": ["plan", "missing.yaml"],
}


async def test_the_output_and_the_exit_code_are_those_of_a_database(both: Both) -> None:
    beta = {
        "version": "1.0",
        "tenant": "beta",
        "sagas": [{"name": "weekly", "trigger": {"scheduled": {"cron": "0 2 * * 1"}}}],
    }
    write(
        both.folder,
        {
            "acme.yaml": manifest(
                "acme", numbered(3) | {"london": f"{NIGHTLY}, timezone: Europe/London"}
            ),
            "again.yaml": manifest("acme", {}),
            "beta.json": json.dumps(beta),
            "broken.yaml": manifest("gamma", {"a": 'cron: "61 * * * *"', "b": 'cron: "x"'}),
            "nonsense.yaml": "{",
        },
    )
    for form in ("text", "json"):
        for what, arguments in STEPS.items():
            here, there = await both(*arguments, "--format", form)
            assert without_times(there.out) == without_times(here.out), what
            assert (there.code, there.err) == (here.code, here.err), what
    assert names(both.served_url, "acme") == names(both.direct_url, "acme") != []


async def test_deletes_over_the_limit_are_refused_with_the_same_message(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", numbered(12))})
    await both("apply-manifest", "acme.yaml", "--create-tenants")
    write(both.folder, {"acme.yaml": manifest("acme", {})})
    here, there = await both("apply-manifest", "acme.yaml")
    assert (there.code, without_times(there.out)) == (here.code, without_times(here.out))
    assert "TC603" in there.out
    here, there = await both("apply-manifest", "acme.yaml", "--max-deletes", "12")
    assert (there.code, without_times(there.out)) == (here.code, without_times(here.out))
    assert names(both.served_url, "acme") == []


async def test_the_report_names_the_policy_that_checked_the_manifests(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    loose = "[policy]\nmax_schedules_per_tenant = 99\n"
    write(both.folder, {"tenantcron.toml": loose})
    local = policy_digest(load_policy(both.folder / "tenantcron.toml"))
    of_server = policy_digest(both.api.service.policy)
    page = both.folder / "summary.md"
    creating = ("acme.yaml", "--create-tenants")
    here, there = await both("plan", *creating, GITHUB_STEP_SUMMARY=str(page))

    assert f"checked with the policy of tenantcron.toml (digest {local})\n" in here.out
    assert f"checked with the policy of {both.api.url} (digest {of_server})\n" in there.out
    assert f"checked with the policy of tenantcron.toml (digest {local})" in page.read_text("utf-8")
    assert f"checked with the policy of {both.api.url} " in page.read_text("utf-8")
    here, there = await both("apply-manifest", *creating, "--format", "json")
    assert json.loads(here.out)["policies"] == [{"origin": "tenantcron.toml", "digest": local}]
    assert json.loads(there.out)["policies"] == [{"origin": both.api.url, "digest": of_server}]


async def test_an_apply_is_recorded_with_the_token_and_the_source(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    token = await new_token(both.api.database, "admin", name="ci")
    arguments = ("apply-manifest", "acme.yaml", "--create-tenants", "--source-ref", "3f2a9c1")
    await asyncio.to_thread(both.on_server, *arguments, token=token)

    (row,) = query(both.served_url, "SELECT * FROM tenantcron.manifest_version")
    assert (row["applied_by"], row["source_ref"]) == ("token:ci", "3f2a9c1")


async def test_without_a_valid_token_nothing_changes_and_the_exit_code_is_2(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    for token in (None, "tc_wrong"):
        called = await asyncio.to_thread(both.on_server, "plan", "acme.yaml", token=token)
        assert (called.code, "TENANTCRON_TOKEN" in called.err) == (2, True)


async def test_a_missing_permission_fails_its_tenant(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    await both.api.tenants("acme")
    token = await new_token(both.api.database, "viewer")
    called = await asyncio.to_thread(both.on_server, "apply-manifest", "acme.yaml", token=token)

    assert called.code == 1
    assert "error[TC702] " in called.out
    assert ": use a token with another role" in called.out
    assert names(both.served_url, "acme") == []


async def test_a_request_to_a_busy_server_is_retried(server: Server, tmp_path: Path) -> None:
    """The third request of a minute is retried after `Retry-After`."""
    write(tmp_path, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    with server.database(TEMPLATE) as url:
        settings = Settings(database_url=url, folder=tmp_path)
        async with (
            open_database(settings) as database,
            api_on(database, tmp_path, api_rate_limit=1) as api,
        ):
            await api.tenants("acme")
            token = await new_token(database, "admin")
            both = Both(Shell(tmp_path), url, url, api, tmp_path)
            # The window is made to end in two seconds.
            query(
                url,
                "INSERT INTO tenantcron.api_usage SELECT 'token:' || id,"
                " now() - interval '58 seconds', 5 FROM tenantcron.api_token",
            )
            called = await asyncio.to_thread(both.on_server, "plan", "acme.yaml", token=token)

    assert called.code == 0


SAVED = ("apply-manifest", "--plan", "reviewed.plan")


async def planned(both: Both, *arguments: str) -> str:
    """Save a plan of the server; return a token to apply it with."""
    token = await new_token(both.api.database, "admin")
    saving = ("plan", *arguments, "--out", "reviewed.plan")
    called = await asyncio.to_thread(both.on_server, *saving, token=token)
    assert called.code == 0, called.err
    return token


async def test_a_saved_plan_of_a_server_applies_what_was_reviewed_and_reads_no_manifest(
    both: Both,
) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    token = await planned(both, "acme.yaml", "--create-tenants")
    (both.folder / "acme.yaml").unlink()

    tried = await asyncio.to_thread(both.on_server, *SAVED, "--dry-run", token=token)
    assert (tried.code, query(both.served_url, "SELECT id FROM tenantcron.tenant")) == (0, [])
    called = await asyncio.to_thread(both.on_server, *SAVED, token=token)
    assert (called.code, names(both.served_url, "acme")) == (0, ["nightly"])


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
async def test_a_saved_plan_of_a_server_is_refused_after_another_change(
    both: Both, dry_run: tuple[str, ...]
) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    token = await planned(both, "acme.yaml", "--create-tenants")
    await asyncio.to_thread(both.on_server, *SAVED, token=token)

    new = await asyncio.to_thread(both.on_server, *SAVED, *dry_run, token=token)
    assert (new.code, "TC604" in new.out) == (1, True), new.out

    write(both.folder, {"acme.yaml": manifest("acme", numbered(2))})
    await planned(both, "acme.yaml", "--max-deletes", "1")
    write(both.folder, {"acme.yaml": manifest("acme", numbered(3))})
    moving = ("apply-manifest", "acme.yaml", "--max-deletes", "1")
    await asyncio.to_thread(both.on_server, *moving, token=token)
    before = names(both.served_url, "acme")
    moved = await asyncio.to_thread(both.on_server, *SAVED, *dry_run, token=token)

    assert (moved.code, "TC604" in moved.out) == (1, True), moved.out
    assert names(both.served_url, "acme") == before


async def test_a_saved_plan_keeps_the_rules_of_the_apply(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", numbered(12))})
    await both("apply-manifest", "acme.yaml", "--create-tenants")
    write(both.folder, {"acme.yaml": manifest("acme", {})})
    token = await planned(both, "acme.yaml", "--max-deletes", "12")

    called = await asyncio.to_thread(both.on_server, *SAVED, token=token)
    assert (called.code, names(both.served_url, "acme")) == (0, [])


async def test_a_plan_with_a_failed_tenant_is_not_saved(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": 'cron: "61 * * * *"'})})
    token = await new_token(both.api.database, "admin")
    saving = ("plan", "acme.yaml", "--out", "reviewed.plan")
    called = await asyncio.to_thread(both.on_server, *saving, token=token)

    assert (called.code, (both.folder / "reviewed.plan").exists()) == (1, False)


async def test_a_plan_is_applied_only_to_its_server_or_database(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    token = await planned(both, "acme.yaml", "--create-tenants")
    elsewhere = Shell(both.folder)(*SAVED, "--server", "http://127.0.0.1:1", TENANTCRON_TOKEN=token)
    assert (elsewhere.code, f"was made from {both.api.url}" in elsewhere.err) == (2, True)
    directly = await asyncio.to_thread(both.direct, *SAVED)
    assert (directly.code, "apply it with --server" in directly.err) == (2, True)

    await asyncio.to_thread(
        both.direct, "plan", "acme.yaml", "--create-tenants", "--out", "reviewed.plan"
    )
    remote = await asyncio.to_thread(both.on_server, *SAVED, token=token)
    assert (remote.code, "apply it without --server" in remote.err) == (2, True)

    file = both.folder / "reviewed.plan"
    await planned(both, "acme.yaml", "--create-tenants")
    file.write_text(file.read_text("utf-8").replace("nightly", "hourly"), encoding="utf-8")
    edited = await asyncio.to_thread(both.on_server, *SAVED, token=token)
    assert (edited.code, "edited or truncated" in edited.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "acme.yaml", "--server", "cron.internal"), "is not a URL such as"),
        (("plan", "acme.yaml", "--server", "https://["), "is not a URL such as"),
        (("plan", "acme.yaml", "--server", "https://cron.internal:eighty"), "is not a URL such as"),
        (("plan", "acme.yaml", "--server", "http://cron.internal"), "use https"),
        (
            ("plan", "acme.yaml", "--server", "http://127.0.0.1:1"),
            "http://127.0.0.1:1: cannot connect",
        ),
        (("plan", "acme.yaml", "--server", "http://127.0.0.1:1", "--policy", "x"), "policy"),
        (
            ("apply-manifest", "acme.yaml", "--server", "http://127.0.0.1:1", "--actor", "x"),
            "token",
        ),
        (("apply-manifest", "--plan", "x", "--server", "http://127.0.0.1:1"), "cannot be read"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    write(tmp_path, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    called = Shell(tmp_path)(*arguments, TENANTCRON_TOKEN="tc_x")  # noqa: S106 -- not a token

    assert (called.code, words in called.err) == (2, True), called.err


def test_an_invalid_token_is_refused_and_not_shown(tmp_path: Path) -> None:
    write(tmp_path, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    for token in ("tc_hush\nhush", "tc_h\N{LATIN SMALL LETTER U WITH DIAERESIS}sh_hush"):
        called = Shell(tmp_path)(
            "plan", "acme.yaml", "--server", "http://127.0.0.1:1", TENANTCRON_TOKEN=token
        )

        assert (called.code, "TENANTCRON_TOKEN" in called.err) == (2, True), called.err
        assert "hush" not in called.err + called.out


async def test_a_trailing_newline_of_the_token_is_removed(both: Both) -> None:
    write(both.folder, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    token = await new_token(both.api.database, "admin")
    called = await asyncio.to_thread(
        both.on_server, "plan", "acme.yaml", "--create-tenants", token=f"{token}\n"
    )

    assert called.code == 0, called.err


def test_a_command_with_a_server_imports_no_database_driver(tmp_path: Path) -> None:
    write(tmp_path, {"acme.yaml": manifest("acme", {"nightly": NIGHTLY})})
    code = (
        "import sys; from tenantcron.cli.main import main;"
        "main(['plan', 'acme.yaml', '--server', 'http://127.0.0.1:1']);"
        "print(sorted({'psycopg', 'sqlalchemy', 'alembic', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
