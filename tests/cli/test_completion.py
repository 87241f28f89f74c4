"""Completion: what can follow on a command line, and the real shells that show it."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from support.database import TEMPLATE, Server
from support.fleet import NIGHTLY, Shell, manifest
from support.patience import PATIENCE
from support.ports import free_port
from support.serve_process import serving
from support.typing_shells import TAB, TypingShell, require, typing_shell

from tenantcron.cli.completion import SHELLS
from tenantcron.cli.main import COMMANDS
from tenantcron.cli.shells import names
from tenantcron.cli.shells.command_table import FILE_NAME
from tenantcron.cli.shells.generate import render

SHIPPED = Path(__file__).parents[2] / "cli" / "shells"
PROGRAM = f"{shlex.quote(sys.executable)} -m tenantcron"
# In a shell: completion calls the real program, and a completed line shows its words.
SHOWN = (
    'tenantcron() { if [ "$1" = __complete ]; then '
    f'{PROGRAM} "$@"; else printf "<%s>" "$@"; fi; }}'
)


def completed(shell: Shell, line: str, **variables: str) -> list[str]:
    """Return the candidates for a line whose cursor is at its end, without their summaries."""
    words = [*line.split(" ")]
    called = shell("__complete", *words, **variables)
    assert (called.code, called.err) == (0, "")
    return [found.partition("\t")[0] for found in called.out.splitlines()]


@pytest.fixture(scope="module")
def url(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with the tenants acme, with two schedules, and adventure."""
    folder = tmp_path_factory.mktemp("fleet")
    with server.database(TEMPLATE) as database_url:
        schedules = {"nightly": NIGHTLY, "night_report": NIGHTLY}
        (folder / "acme.yaml").write_text(manifest("acme", schedules), encoding="utf-8")
        (folder / "adventure.yaml").write_text(manifest("adventure", {}), encoding="utf-8")
        shell = Shell(folder, database_url)
        assert shell("apply-manifest", str(folder), "--create-tenants").code == 0
        yield database_url


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell that waits longer than a user would, because this machine is busy."""
    monkeypatch.setattr(names, "PATIENCE", PATIENCE)
    return Shell(tmp_path)


def test_the_table_is_that_of_the_parsers() -> None:
    stored = (SHIPPED / FILE_NAME).read_text(encoding="utf-8")
    assert stored == render(), "run `make generated`"


def test_every_command_is_completed(shell: Shell) -> None:
    assert set(completed(shell, "")) >= COMMANDS.keys()


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("exec", ["execution"]),
        ("execution re", ["retry"]),
        ("execution list --sta", ["--state"]),
        ("execution list --state D", ["DEAD"]),
        ("execution list --state=d", ["--state=DEAD"]),
        ("execution list --state = d", ["DEAD"]),
        ("execution list --state DEAD --sta", ["--state"]),
        ("execution list --limit 5 --lim", []),
        ("execution list --format te", ["text"]),
        ("apply --dry", ["--dry-run"]),
        ("plan --format js", ["json"]),
        ("next --timezone europe/lon", ["Europe/London"]),
        ("validate man", [":paths"]),
        ("plan a.yaml --policy ", [":paths"]),
        ("next --manifest a.yaml b.y", [":paths"]),
        ("schema ", ["manifest", "policy"]),
        ("completion ", [*SHELLS]),
        ("validate -- --for", [":paths"]),
        ("token create ", []),
        ("nonsense ", []),
        ("execution list --nonsense=", []),
    ],
)
def test_words_are_completed(shell: Shell, line: str, candidates: list[str]) -> None:
    assert completed(shell, line) == candidates


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("tenant show a", ["acme", "adventure"]),
        ("tenant show ac", ["acme"]),
        ("execution list --tenant=adv", ["--tenant=adventure"]),
        ("why a", ["acme/", "adventure/"]),
        ("why acme/", ["acme/night_report", "acme/nightly"]),
        ("why acme/nightly", ["acme/nightly"]),
        ("why other/", []),
        ("history ac", ["acme", "acme/"]),
        ("execution list acme/nightl", ["acme/nightly"]),
    ],
)
def test_names_come_from_the_database(
    shell: Shell, url: str, line: str, candidates: list[str]
) -> None:
    assert completed(shell, line, TENANTCRON_DATABASE_URL=url) == candidates


def test_names_come_from_the_server_that_the_line_names(shell: Shell, url: str) -> None:
    with serving(Shell(shell.folder, url), "--anonymous") as (server_url, _):
        line = f"apply --server {server_url} --tenant adv"
        assert completed(shell, line) == ["adventure"]
        line = f"apply --server = {server_url} --tenant a"
        assert completed(shell, line) == ["acme", "adventure"]


def test_without_a_database_names_come_from_manifests(shell: Shell) -> None:
    (shell.folder / "manifests").mkdir()
    good, bad = shell.folder / "manifests" / "acme.yaml", shell.folder / "bad.yaml"
    good.write_text(manifest("acme", {"nightly": NIGHTLY}), encoding="utf-8")
    bad.write_text("tenant: [", encoding="utf-8")

    assert completed(shell, "why ac") == ["acme/"]
    assert completed(shell, "why acme/n") == ["acme/nightly"]
    assert not (shell.folder / ".tenantcron").exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"TENANTCRON_DATABASE_URL": f"postgresql://x@127.0.0.1:{free_port()}/x"},
        {"TENANTCRON_DATABASE_URL": "nonsense"},
        {"TENANTCRON_LEASE": "nonsense"},
    ],
    ids=["down", "not a URL", "a wrong setting"],
)
def test_a_source_that_fails_completes_nothing(shell: Shell, variables: dict[str, str]) -> None:
    assert completed(shell, "why ac", **variables) == []


def test_a_server_that_fails_completes_nothing(shell: Shell) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert completed(shell, f"apply --server {url} --tenant a") == []


def test_a_source_that_does_not_answer_completes_nothing() -> None:
    released = Event()

    def wait() -> list[str]:
        released.wait()
        return ["late"]

    assert names._within(0.01, wait) == []
    released.set()


def test_completion_of_words_imports_no_command(tmp_path: Path) -> None:
    script = (
        "import sys; from tenantcron.cli.main import main; main(['__complete', 'execution', '']);"
        "print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    imported = set(run.stdout.splitlines()[-1].split())
    assert imported.isdisjoint({"tenantcron.cli.execution", "sqlalchemy", "psycopg", "rich"})


@pytest.mark.parametrize("name", SHELLS)
def test_the_script_is_what_the_shell_accepts(shell: Shell, name: str) -> None:
    program = require(name)
    script = shell.folder / f"script.{name}"
    script.write_text(shell("completion", name).out, encoding="utf-8")
    checked = subprocess.run([program, "-n", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.fixture
def bash(tmp_path: Path, url: str) -> Iterator[TypingShell]:
    setup = f"{SHOWN}; source {shlex.quote(str(SHIPPED / 'tenantcron.bash'))}"
    command = [require("bash"), "--norc", "--noprofile", "-i"]
    with typing_shell(command, setup, tmp_path, TENANTCRON_DATABASE_URL=url) as shell:
        yield shell


@pytest.fixture
def zsh(tmp_path: Path, url: str) -> Iterator[TypingShell]:
    script = shlex.quote(str(SHIPPED / "tenantcron.zsh"))
    loaded = f"autoload -U compinit; compinit -u -d dump; source {script}"
    # Otherwise the prompt ends with an escape sequence.
    setup = f"{SHOWN}; {loaded}; unset zle_bracketed_paste"
    command = [require("zsh"), "-f", "-i"]
    with typing_shell(command, setup, tmp_path, TENANTCRON_DATABASE_URL=url) as shell:
        yield shell


TYPED = {
    f"exec{TAB}li{TAB}--sta{TAB}DE{TAB}": "<execution><list><--state><DEAD>",
    f"execution list --state=DE{TAB}": "<execution><list><--state=DEAD>",
    f"why ac{TAB}nightl{TAB}--form{TAB}js{TAB}": "<why><acme/nightly><--format><json>",
    f"validate pay{TAB}": "<validate><payroll.yaml>",
}


def assert_completes(shell: TypingShell, folder: Path) -> None:
    (folder / "payroll.yaml").touch()
    for keys, words in TYPED.items():
        assert words in shell.enter(f"tenantcron {keys}")


def test_bash_completes(bash: TypingShell, tmp_path: Path) -> None:
    assert_completes(bash, tmp_path)


def test_zsh_completes(zsh: TypingShell, tmp_path: Path) -> None:
    assert_completes(zsh, tmp_path)


def test_fish_completes(tmp_path: Path, url: str) -> None:
    (tmp_path / "payroll.yaml").touch()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tenantcron"
    program.write_text(f'#!/bin/sh\nexec {PROGRAM} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    lines = ["exec", "execution list --state=DE", "why ac", "why acme/nightl", "validate pay"]
    script = "; ".join(
        [
            f"source {shlex.quote(str(SHIPPED / 'tenantcron.fish'))}",
            *(f"complete -C 'tenantcron {line}'" for line in lines),
        ]
    )
    run = subprocess.run(
        [require("fish"), "--no-config", "--command", script],
        cwd=tmp_path,
        env={
            "HOME": str(tmp_path),
            "PATH": f"{program.parent}:/usr/bin:/bin",
            "TENANTCRON_DATABASE_URL": url,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == [
        "execution\tshow, retry and cancel executions",
        "--state=DEAD",
        "acme/",
        "acme/nightly",
        "payroll.yaml",
    ]
