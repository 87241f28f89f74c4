"""The commands with their options and arguments, as a table that completion reads.

`make generated` writes it into `commands.json`. Completion reads that file instead of the parsers,
because importing a command takes longer than a user waits for a completion.
"""

import json
from enum import StrEnum
from importlib.resources import files
from typing import NotRequired, TypedDict, cast

FILE_NAME = "commands.json"


class ValueKind(StrEnum):
    """What the value of an option or of an argument is."""

    TENANT = "tenant"
    SCHEDULE = "schedule"
    TENANT_OR_SCHEDULE = "tenant or schedule"
    TIME_ZONE = "time zone"
    PATH = "path"
    TEXT = "text"


class ValueEntry(TypedDict):
    """An accepted value."""

    kind: ValueKind
    choices: NotRequired[list[str]]
    takes_many: NotRequired[bool]


class OptionEntry(TypedDict):
    """An option; a flag has no value."""

    summary: str
    value: NotRequired[ValueEntry]
    is_repeatable: NotRequired[bool]


class CommandEntry(TypedDict):
    """A command, or an action of a command."""

    summary: str
    options: dict[str, OptionEntry]
    arguments: list[ValueEntry]
    actions: dict[str, "CommandEntry"]


def load_commands() -> dict[str, CommandEntry]:
    """Read the table that ships with the package."""
    text = (files("tenantcron.cli.shells") / FILE_NAME).read_text(encoding="utf-8")
    return cast("dict[str, CommandEntry]", json.loads(text))
