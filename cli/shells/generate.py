"""Generate the table of commands: `python -m tenantcron.cli.shells.generate FOLDER`."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tenantcron.cli.main import COMMANDS, command_parser
from tenantcron.cli.shells.command_table import (
    FILE_NAME,
    CommandEntry,
    OptionEntry,
    ValueEntry,
    ValueKind,
)

_KINDS = {
    "TENANT": ValueKind.TENANT,
    "T": ValueKind.TENANT,
    "TENANT/SCHEDULE": ValueKind.SCHEDULE,
    "TENANT/SCHEDULE|ID": ValueKind.SCHEDULE,
    "TENANT[/SCHEDULE]": ValueKind.TENANT_OR_SCHEDULE,
    "ZONE": ValueKind.TIME_ZONE,
    "PATH": ValueKind.PATH,
    "FILE": ValueKind.PATH,
    "FOLDER": ValueKind.PATH,
    "PLANFILE": ValueKind.PATH,
}


def render() -> str:
    """Return the text of the table."""
    table = {name: _command(command_parser(name), COMMANDS[name]) for name in COMMANDS}
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def _command(parser: argparse.ArgumentParser, summary: str) -> CommandEntry:
    entry: CommandEntry = {"summary": summary, "options": {}, "arguments": [], "actions": {}}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            entry["actions"] = dict(_actions(action))
        elif action.option_strings:
            entry["options"] |= {name: _option(action) for name in action.option_strings}
        else:
            entry["arguments"].append(_value(action))
    return entry


def _actions(
    group: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> Iterator[tuple[str, CommandEntry]]:
    summaries = {choice.dest: choice.help or "" for choice in group._choices_actions}
    for name, parser in group.choices.items():
        yield name, _command(parser, summaries[name])


def _option(action: argparse.Action) -> OptionEntry:
    entry: OptionEntry = {"summary": (action.help or "").replace("%%", "%")}
    if action.nargs != 0:
        entry["value"] = _value(action)
    if isinstance(action, argparse._AppendAction):
        entry["is_repeatable"] = True
    return entry


def _value(action: argparse.Action) -> ValueEntry:
    entry: ValueEntry = {"kind": _kind(action)}
    if action.choices is not None:
        entry["choices"] = [str(choice) for choice in action.choices]
    if action.nargs in ("+", "*"):
        entry["takes_many"] = True
    return entry


def _kind(action: argparse.Action) -> ValueKind:
    if action.dest in ("tenant", "confirm"):
        return ValueKind.TENANT
    return _KINDS.get(str(action.metavar), ValueKind.TEXT)


def main(folder: Path) -> None:
    """Write the file."""
    (folder / FILE_NAME).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
