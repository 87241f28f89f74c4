"""The layout of `--help` in terminals of several widths."""

import argparse
from collections.abc import Iterator

import pytest

from tenantcron.cli.help_text import HelpFormatter
from tenantcron.cli.main import COMMANDS, command_parser


def parsers(command: str) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of a command and those of its actions."""
    parser = command_parser(command)
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_of_help_is_wider_than_the_terminal(
    command: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    shown = [line for parser in parsers(command) for line in parser.format_help().splitlines()]

    assert [line for line in shown if len(line) > columns and not is_path(line)] == []


def is_path(line: str) -> bool:
    """Whether a line has nothing but a path, which cannot be broken."""
    return len(line.removeprefix("      > ").split()) == 1 and "/" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_action_is_described_by_a_sentence(command: str) -> None:
    descriptions = [parser.description or "" for parser in parsers(command)]

    assert [text for text in descriptions if not (text[:1].isupper() and text.endswith("."))] == []


def shown_examples(examples: str, columns: int) -> list[str]:
    formatter = HelpFormatter("tenantcron", width=columns)
    formatter.add_text(f"examples:\n{examples}")
    return formatter.format_help().splitlines()[1:]


def test_examples_that_fit_stay_as_they_are() -> None:
    assert shown_examples("  tenantcron plan x    plan it", 40) == [
        "  tenantcron plan x    plan it"
    ]


def test_explanations_are_wrapped_in_their_column() -> None:
    shown = shown_examples("  tenantcron dev    run the project in the working directory", 44)

    assert shown == [
        "  tenantcron dev    run the project in the",
        "                    working directory",
    ]


def test_explanations_move_below_commands_that_take_most_of_the_line() -> None:
    text = """\
  tenantcron plan manifests/ --out reviewed.plan    for a review
                                                    by a colleague
  tenantcron plan manifests/"""

    assert shown_examples(text, 50) == [
        "  tenantcron plan manifests/ --out reviewed.plan",
        "      for a review by a colleague",
        "  tenantcron plan manifests/",
    ]


def test_a_long_command_is_continued_as_in_a_shell() -> None:
    text = "  tenantcron schedule pause acme/nightly --reason 'partner is down' --until 2h"

    assert shown_examples(text, 50) == [
        "  tenantcron schedule pause acme/nightly \\",
        "      --reason 'partner is down' --until 2h",
    ]


def test_a_command_without_options_is_continued_before_a_long_argument() -> None:
    text = "  tenantcron task show acme/019a9c1e-7d1c-7b3e-9f0a-3f2a9c1e5d77"

    assert shown_examples(text, 60) == [
        "  tenantcron task show \\",
        "      acme/019a9c1e-7d1c-7b3e-9f0a-3f2a9c1e5d77",
    ]


def test_the_usage_names_only_what_a_call_needs() -> None:
    usage = command_parser("plan").format_usage()

    assert usage == "usage: tenantcron plan [option ...] PATH [PATH ...]\n"
