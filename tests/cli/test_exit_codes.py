"""Exit codes: each command is run for each meaning that the documentation lists."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cursors import run
from support.database import TEMPLATE, Server
from support.fleet import NIGHTLY, Shell, manifest
from support.ports import free_port

from tenantcron.cli.exit_codes import EXIT_CODES
from tenantcron.cli.main import COMMANDS

WRONG = "--nonsense"
# For each row of the table: a line that succeeds, one that fails, and one that is wrong usage.
# None: the code is not used, or another test covers it, as the comment says.
LINES: dict[str, tuple[str | None, str | None, str]] = {
    "init": ("init starter", None, "init --nonsense"),
    # A process: tests/cli/test_dev.py.
    "dev": (None, None, "dev --port x"),
    "context": ("context list", "context use unknown", "context use"),
    "validate": ("validate acme.yaml", "validate bad.yaml", "validate missing.yaml"),
    "next": ("next @daily", "next nonsense", "next --manifest missing.yaml"),
    "explain": ("explain TC301", None, "explain TC999"),
    "schema": ("schema", None, "schema --policy missing.toml"),
    "completion": ("completion bash", None, "completion tcsh"),
    "man": ("man man1", None, "man acme.yaml"),
    "plan": ("plan acme.yaml", "plan bad.yaml", "plan missing.yaml"),
    "apply-manifest": ("apply acme.yaml", "apply bad.yaml", "apply missing.yaml"),
    # A forced stop: tests/cli/test_signals.py.
    "run": ("run --once --handlers exit_handlers", None, "run --once --handlers no.module"),
    # Processes: tests/deploy and tests/cli/test_signals.py.
    "serve": (None, None, "serve --port x"),
    "schedule": ("schedule list", "schedule show acme/unknown", "schedule show nonsense"),
    "task": (
        "task list acme",
        "task show acme/00000000-0000-7000-8000-000000000001",
        "task show acme",
    ),
    "execution": ("execution list", "execution show 00000000", "execution show x"),
    "limits": ("limits", None, "limits --max-concurrent x"),
    "tenant": ("tenant show acme", "tenant show unknown", "tenant show"),
    # With a source: tests/cli/test_tenant_refresh.py.
    "tenant refresh": (None, None, "tenant refresh"),
    "token": ("token list", "token revoke 0000000000000000", "token create ci"),
    "keys": ("keys list", "keys retire unknown", "keys rotate --lead x"),
    "webhook": ("webhook list", "webhook enable unknown", "webhook add x"),
    "history": ("history acme", "history unknown", "history acme --limit x"),
    "why": ("why acme/nightly", "why acme/unknown", "why nonsense"),
    "logs": (None, "logs acme/nightly", "logs nonsense"),
    # Without findings: tests/cli/test_health.py.
    "health": (None, "health", "health --nonsense"),
    # With findings: tests/cli/test_audit.py.
    "audit": ("audit", None, "audit --since soon"),
    "migrate": ("migrate --check", None, "migrate --concurrency x"),
    "uninstall": (None, "uninstall", "uninstall --nonsense"),
}
DETAILED = "plan --detailed-exitcode"
ON_DATABASE = [
    *("plan acme.yaml", "apply acme.yaml", "run --once --handlers exit_handlers", "schedule list"),
    *("execution list", "limits", "tenant list", "token list", "keys list", "webhook list"),
    *("history acme", "why acme/nightly", "logs acme/nightly", "health", "audit", "migrate"),
    "uninstall",
]


@pytest.fixture(scope="module")
def shell(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("codes")
    write(folder)
    with server.database(TEMPLATE) as url:
        shell = Shell(folder, url)
        assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
        yield shell


def write(folder: Path) -> None:
    (folder / "acme.yaml").write_text(manifest("acme", {"nightly": NIGHTLY}), encoding="utf-8")
    (folder / "bad.yaml").write_text("tenant: bad\nsagas: 7\n", encoding="utf-8")
    # A function of the module: it stays imported, and is recognised when another test loads it.
    handlers = "from tenantcron import saga\n\n@saga('nightly')\ndef run(_): pass\n"
    (folder / "exit_handlers.py").write_text(handlers, encoding="utf-8")


def test_every_command_is_in_the_table() -> None:
    assert EXIT_CODES.keys() == {*COMMANDS, DETAILED, "tenant refresh"}
    assert LINES.keys() | {DETAILED} == EXIT_CODES.keys()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param(line, code, id=f"{line} is {code}")
        for lines in LINES.values()
        for code, line in enumerate(lines)
        if line is not None
    ],
)
def test_a_command_exits_as_documented(
    shell: Shell, line: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(shell.folder))

    called = shell(*line.split())

    assert called.code == code, called
    assert "Traceback" not in called.err
    assert called.err or code != 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("plan acme.yaml", 0),
        ("plan bad.yaml", 1),
        ("plan new.yaml --create-tenants", 2),
        ("plan missing.yaml", 3),
    ],
)
def test_a_detailed_plan_exits_as_documented(shell: Shell, line: str, code: int) -> None:
    (shell.folder / "new.yaml").write_text(manifest("new", {"x": NIGHTLY}), encoding="utf-8")
    assert shell(*line.split(), "--detailed-exitcode").code == code


@pytest.mark.parametrize("line", ON_DATABASE)
def test_without_a_database_the_code_is_2(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    shell = Shell(tmp_path, f"postgresql://x@127.0.0.1:{free_port()}/x")

    called = shell(*line.split())

    assert called.code == 2
    assert called.err.startswith("error: ")
    assert called.out == ""


def test_a_detailed_plan_without_a_database_exits_with_3(tmp_path: Path) -> None:
    write(tmp_path)
    shell = Shell(tmp_path, f"postgresql://x@127.0.0.1:{free_port()}/x")
    assert shell("plan", "acme.yaml", "--detailed-exitcode").code == 3


def test_a_database_without_tenantcron_needs_no_removal(
    empty_database_url: str, tmp_path: Path
) -> None:
    assert Shell(tmp_path, empty_database_url)("uninstall").code == 0


def test_a_difference_of_the_schema_exits_with_1(database_url: str, tmp_path: Path) -> None:
    run(database_url, "DROP INDEX tenantcron.schedule_cursor_due_idx")
    assert Shell(tmp_path, database_url)("migrate", "--check").code == 1
