"""All commands: help, wrong usage, exit codes, pipes and consoles."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from shlex import quote

import pytest
from support.cli import plain_environment, tenantcron
from support.fleet import Shell, manifest, numbered
from support.manifests import GOOD, MISTAKES

from tenantcron.cli.main import ALIASES, COMMANDS, GROUPS, main


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main([command, "--help"])
    assert exited.value.code == 0
    shown = capsys.readouterr().out
    assert "\nexamples:\n  tenantcron " in shown
    assert f"usage: tenantcron {command}" in shown


def helps(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, str]]:
    """Yield the help of all arguments and actions of a command, each with its path."""
    for argument in parser._actions:
        yield f"{path} {argument.metavar or argument.dest}", argument.help or ""
        if isinstance(argument, argparse._SubParsersAction):
            for action in argument._choices_actions:
                yield f"{path} {action.dest}", action.help or ""
            for name, action_parser in argument.choices.items():
                yield from helps(action_parser, f"{path} {name}")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_text_has_1_to_60_characters(command: str) -> None:
    parser = argparse.ArgumentParser()
    import_module(f"tenantcron.cli.{command.replace('-', '_')}").configure(parser)
    found = [(command, COMMANDS[command]), *helps(parser, command)]
    wrong = [
        (path, text)
        for path, text in found
        if not 0 < len(text) <= 60 and not path.endswith("ACTION")
    ]
    assert wrong == []


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    listed = {line.split()[0] for line in shown.splitlines() if line.startswith("    ")}
    assert listed.issuperset(COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["validate"],
        ["validate", "--format", "xml", "x.yaml"],
        ["validate", "--nonsense", "x.yaml"],
        ["next"],
        ["next", "0 2 * * *", "--manifest", "x.yaml"],
        ["next", "0 2 * * *", "--count", "many"],
        ["schema", "nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_prints_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 2
    assert capsys.readouterr().err.startswith("usage: tenantcron")


def test_no_command_shows_the_help_with_its_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line[:-1] for line in shown if line.endswith(":") and line[:-1] in GROUPS] == [*GROUPS]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("validat x.yaml", "validate"),
        ("aply x.yaml", "apply"),
        ("executions list", "execution"),
        ("execution lst", "list"),
        ("execution list --state DED", "DEAD"),
        ("execution list --tenat acme", "--tenant"),
        ("validate --formt=json x.yaml", "--format"),
        ("plan --detailed-exit-code x.yaml", "--detailed-exitcode"),
        ("plan --detaild-exitcode", "--detailed-exitcode"),
        ("pause acme/nightly", "schedule pause"),
        ("resume acme/nightly", "schedule resume, tenant resume"),
    ],
)
def test_a_misspelt_command_option_or_value_gets_a_suggestion(
    line: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(line.split())
    assert capsys.readouterr().err.endswith(f" did you mean {meant}?\n")


def test_an_unknown_command_refers_to_the_list_of_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["frobnicate"])
    assert capsys.readouterr().err.endswith(": `tenantcron --help` lists the commands\n")


@pytest.mark.parametrize(("alias", "command"), ALIASES.items())
def test_an_alias_is_the_command(
    alias: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([alias, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: tenantcron {command} ")


def test_the_version_is_that_of_the_package() -> None:
    run = tenantcron("--version")
    assert (run.returncode, run.stdout) == (0, "tenantcron 0.1.0\n")


def first_line_of(command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command whose reader leaves after the first line."""
    line = f"set -o pipefail; {quote(sys.executable)} -m tenantcron {command} | head -1"
    return subprocess.run(
        ["bash", "-c", line],
        env=plain_environment() | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        f"validate {quote(str(MISTAKES))}",
        f"validate --format json {quote(str(MISTAKES))}",
        "schema",
        "explain",
        "next '0 * * * *' --count 10000",
    ],
)
def test_a_reader_that_closes_the_pipe_causes_no_error(command: str) -> None:
    run = first_line_of(command)
    assert run.stderr == ""
    assert len(run.stdout.splitlines()) == 1
    # There are errors, so the pipeline must not report success.
    assert run.returncode != 0 or not command.startswith("validate")


@pytest.mark.parametrize(
    "command",
    ["schedule list", "execution list", "tenant list", "tenant show acme", "history acme"],
)
def test_a_reader_that_closes_the_pipe_of_a_list_causes_no_error(
    tmp_path: Path, database_url: str, command: str
) -> None:
    shell = Shell(tmp_path, database_url)
    (tmp_path / "acme.yaml").write_text(manifest("acme", numbered(20)), encoding="utf-8")
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    assert shell("schedule", "trigger", "acme/s000").code == 0

    run = first_line_of(command, TENANTCRON_DATABASE_URL=database_url)

    # The history has more than 20 records.
    assert run.stderr in ("", "note: these are the newest 20; for more, raise --limit\n")
    assert run.returncode in (0, 141)


@pytest.mark.parametrize(
    ("command", "meant"),
    [("context remove x", "delete"), ("webhook delete x", "remove"), ("task new acme x", "submit")],
)
def test_an_action_of_another_name_is_suggested(
    command: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(command.split())

    assert exited.value.code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["execution retry acme --help", "task show -h", "plan --x -h"])
def test_help_is_shown_whatever_the_other_arguments_are(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(command.split())

    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith("usage: tenantcron ")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("validate nope.yaml", 141),
        ("vlidate", 2),
        ("plan nope.yaml --detailed-exitcode", 141),
        ("task show acme/0193810a", 141),
    ],
)
def test_a_closed_pipe_for_errors_does_not_look_like_findings(
    tmp_path: Path, database_url: str, command: str, code: int
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "tenantcron", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "TENANTCRON_DATABASE_URL": database_url},
            stdout=writing,
            stderr=writing,
            check=False,
        )
    finally:
        os.close(writing)

    assert run.returncode == code


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_a_console_that_cannot_show_every_character_gets_escapes(
    tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text("sagas:\n- {name: 請求書 ü, trigger: 'api:x'}\n", encoding="utf-8")
    for output in ("text", "github"):
        run = tenantcron("validate", "--format", output, file, env={"PYTHONIOENCODING": encoding})
        assert run.returncode == 1
        assert "Traceback" not in run.stderr


@pytest.mark.parametrize("command", ["explain", "schema", "next '0 * * * *' --count 10000"])
def test_a_full_disk_is_explained(command: str) -> None:
    run = subprocess.run(
        ["bash", "-c", f"{quote(sys.executable)} -m tenantcron {command} > /dev/full"],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    words = "error: a file cannot be written: No space left on device: free some space\n"
    assert (run.returncode, run.stderr) == (2, words)


def test_an_internal_error_prints_its_traceback_and_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("internal")

    monkeypatch.setattr("tenantcron.cli.validate.find_files", fail)
    assert main(["validate", str(GOOD)]) == 2
    assert "RuntimeError: internal" in capsys.readouterr().err


def test_an_interrupt_exits_as_shells_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tenantcron.cli.validate.find_files", interrupt)
    assert main(["validate", str(GOOD)]) == 130
