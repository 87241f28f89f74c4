"""Each command once as a separate process, to check that its imports are complete."""

from collections.abc import Iterator

import pytest
from support.database import TEMPLATE, Server
from support.fleet import NIGHTLY, Shell, manifest

from tenantcron.cli.main import COMMANDS

ARGUMENTS = {
    "init": ["project"],
    "validate": ["acme.yaml"],
    "next": ["0 2 * * *"],
    "explain": ["TC301"],
    "schema": [],
    "plan": ["acme.yaml"],
    "apply-manifest": ["acme.yaml"],
    "run": ["--once"],
    "tenant": ["show", "acme"],
    "schedule": ["show", "acme/nightly"],
    "execution": ["list"],
    "limits": [],
    "keys": ["list"],
    "token": ["list"],
    "webhook": ["list"],
    "health": [],
    "audit": [],
    "why": ["acme/nightly"],
    "history": ["acme"],
    "task": ["list", "acme"],
    "context": ["list"],
    "completion": ["bash"],
    "man": ["manual"],
    "migrate": [],
    "uninstall": ["--yes", "--with-tenants"],
}


# Their own tests start them as processes: some do not end by themselves, `logs` needs a log.
ENDLESS = {"serve", "dev", "logs"}


def test_all_commands_are_covered() -> None:
    assert ARGUMENTS.keys() | ENDLESS == set(COMMANDS)


@pytest.fixture(scope="module")
def shell(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A tenant whose schedule a scheduler has picked up; the commands keep it so."""
    folder = tmp_path_factory.mktemp("platform")
    text = manifest("acme", {"nightly": NIGHTLY})
    (folder / "acme.yaml").write_text(text, encoding="utf-8")
    with server.database(TEMPLATE) as url:
        shell = Shell(folder, url)
        assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
        assert shell("run", "--once").code == 0
        yield shell


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_command_works_as_a_separate_process(command: str, shell: Shell) -> None:
    process = shell.start(command, *ARGUMENTS[command])
    out, err = process.communicate()

    # No scheduler is running, which `health` reports.
    assert process.returncode == (1 if command == "health" else 0), err
    assert "Traceback" not in err
    assert out or command == "run"
