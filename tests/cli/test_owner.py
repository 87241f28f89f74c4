"""Owners on the command line: planned, shown, authorised, and settings that stop a scheduler."""

import json
import os
from pathlib import Path
from textwrap import dedent

import pytest
from support.fleet import Shell, manifest, query, schedules
from support.patience import PATIENCE

DAILY = 'cron: "0 2 * * *"'
OF_MARIA = f"{DAILY}, owner: 'user:maria'"
HANDLERS = """
    from tenantcron import Allowed, AuthorisationRequest, Execution, Refused, authoriser, saga

    @authoriser
    async def may(request: AuthorisationRequest) -> Allowed | Refused:
        return Refused("has left") if request.owner == "user:maria" else Allowed()

    @saga("export")
    async def export(execution: Execution) -> None:
        print("exported for", execution.owner, flush=True)
"""


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    """A folder with a handler and an authoriser."""
    (tmp_path / "sagas.py").write_text(dedent(HANDLERS), encoding="utf-8")
    return Shell(tmp_path, database_url)


def apply(shell: Shell, timetable: str) -> None:
    text = manifest("acme", {"export": timetable})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0


def test_a_new_owner_is_planned_applied_and_shown(shell: Shell, database_url: str) -> None:
    apply(shell, DAILY)
    text = manifest("acme", {"export": OF_MARIA})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")

    planned = shell("plan", "acme.yaml", "--format", "json")
    (tenant,) = json.loads(planned.out)["tenants"]
    (change,) = tenant["changes"]
    assert (change["action"], change["fields"]) == ("update", ["definition.owner"])
    assert change["before"]["definition"]["owner"] is None
    assert change["after"]["definition"]["owner"] == "user:maria"

    apply(shell, OF_MARIA)
    (row,) = schedules(database_url, "acme")
    assert row["definition"]["owner"] == "user:maria"
    shown = shell("schedule", "show", "acme/export").out
    assert any(line.split() == ["owner", "user:maria"] for line in shown.splitlines())
    assert json.loads(shell("plan", "acme.yaml", "--format", "json").out)["summary"]["update"] == 0


def run_once(shell: Shell) -> str:
    assert shell("schedule", "trigger", "acme/export").code == 0
    run = shell.start("run", "--once", "--handlers", "sagas", PYTHONPATH=str(shell.folder))
    out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, err
    return out


def test_an_authoriser_beside_the_sagas_decides(shell: Shell, database_url: str) -> None:
    apply(shell, OF_MARIA)
    assert run_once(shell) == ""
    (row,) = query(database_url, "SELECT * FROM tenantcron.execution")
    assert (row["state"], row["reason"]) == ("SKIPPED", "owner user:maria may not: has left")

    shown = json.loads(shell("execution", "show", str(row["id"]), "--format", "json").out)
    (attempt,) = shown["execution"]["attempts"]
    assert attempt["outcome"] == "REFUSED"
    assert "owner user:maria may not: has left" in shell("execution", "list").out
    assert "REFUSED" in shell("execution", "show", str(row["id"])).out
    assert shell("audit").code == 0

    apply(shell, OF_MARIA.replace("maria", "joan"))
    assert run_once(shell) == "exported for user:joan\n"


POLICY = '[policy]\nallowed_hosts = ["policy.internal"]\n'
URL = "https://policy.internal/may"


@pytest.mark.parametrize(
    ("variables", "options", "words"),
    [
        ({"URL": "policy.internal/may"}, (), "owner_check_url is not a valid URL"),
        (
            {"URL": "https://elsewhere.internal/"},
            (),
            'add "elsewhere.internal" to allowed_hosts in the [policy] table',
        ),
        ({"URL": "http://policy.internal/"}, (), "may be called by https only"),
        ({"AUDIENCE": "https://policy.internal"}, (), "needs owner_check_url"),
        ({"URL": URL, "AUDIENCE": "x"}, (), "there is no key to sign them: set master_key"),
        ({"URL": URL, "AUDIENCE": "x\ty"}, (), "OWNER_CHECK_AUDIENCE: 'x\\ty' is not an audience"),
        ({"URL": URL}, ("--handlers", "sagas"), "and the authoriser sagas.may ("),
    ],
)
def test_an_owner_check_that_could_never_decide_stops_the_scheduler_at_start(
    shell: Shell, variables: dict[str, str], options: tuple[str, ...], words: str
) -> None:
    (shell.folder / "tenantcron.toml").write_text(POLICY, encoding="utf-8")
    set_to = {f"TENANTCRON_OWNER_CHECK_{name}": value for name, value in variables.items()}
    run = shell.start("run", "--once", *options, PYTHONPATH=str(shell.folder), **set_to)
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 2
    assert words in err


def test_with_a_key_and_an_allowed_host_it_starts(shell: Shell) -> None:
    (shell.folder / "tenantcron.toml").write_text(POLICY, encoding="utf-8")
    run = shell.start(
        *("run", "--once"),
        TENANTCRON_OWNER_CHECK_URL=URL,
        TENANTCRON_OWNER_CHECK_AUDIENCE="https://policy.internal",
        TENANTCRON_MASTER_KEY=os.urandom(32).hex(),
    )
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, err
