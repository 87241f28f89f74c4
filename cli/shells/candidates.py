"""What can follow on a command line: commands, actions, options, choices, or values of a kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tenantcron.cli.shells.command_table import CommandEntry, ValueEntry, ValueKind


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that can stand at the cursor."""

    text: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """What can stand at the cursor: known words, or a value whose names are looked up."""

    candidates: Sequence[Candidate] = ()
    kind: ValueKind = ValueKind.TEXT
    # The part of the word to complete, and what precedes it in the same word: `--format=`.
    word: str = ""
    prefix: str = ""


@dataclass(slots=True)
class _Position:
    """How far the words before the cursor have been read."""

    command: CommandEntry
    arguments: int = 0
    used: set[str] = field(default_factory=set)
    # The option whose value comes next; one with many values may also end here.
    pending: ValueEntry | None = None
    is_options_end: bool = False


def expected(words: Sequence[str], root: CommandEntry) -> Expected:
    """Return what can stand at the cursor, which is in the last word."""
    *before, current = [*words] or [""]
    if current == "=":  # bash splits `--format=` into two words
        current = ""
    position = _Position(root)
    for word in before:
        _read(word, position)
    if position.pending is not None:
        return _value(position.pending, current)
    if current.startswith("-") and not position.is_options_end:
        return _option(current, position)
    return _argument(current, position)


def _read(word: str, position: _Position) -> None:
    if word == "=":
        return
    if position.pending is not None and not _ends_values(word, position.pending):
        if not position.pending.get("takes_many"):
            position.pending = None
        return
    position.pending = None
    if word == "--":
        position.is_options_end = True
    elif word.startswith("-") and not position.is_options_end:
        _read_option(word, position)
    elif word in position.command["actions"]:
        position.command = position.command["actions"][word]
        position.used.clear()
    else:
        position.arguments += 1


def _ends_values(word: str, value: ValueEntry) -> bool:
    return bool(value.get("takes_many")) and word.startswith("-")


def _read_option(word: str, position: _Position) -> None:
    name, _, given = word.partition("=")
    option = position.command["options"].get(name)
    if option is None:
        return
    if not option.get("is_repeatable"):
        position.used.add(name)
    if not given:
        position.pending = option.get("value")


def _option(current: str, position: _Position) -> Expected:
    name, equals, given = current.partition("=")
    options = position.command["options"]
    if equals:
        value = options[name].get("value") if name in options else None
        return _value(value, given, f"{name}=") if value else Expected()
    offered = {
        name: option["summary"] for name, option in options.items() if name not in position.used
    }
    return Expected(tuple(_starting(current, offered)))


def _argument(current: str, position: _Position) -> Expected:
    command = position.command
    if command["actions"]:
        if position.arguments:  # not an action
            return Expected()
        names = {name: action["summary"] for name, action in command["actions"].items()}
        return Expected(tuple(_starting(current, names)))
    arguments = command["arguments"]
    if position.arguments < len(arguments):
        return _value(arguments[position.arguments], current)
    if arguments and arguments[-1].get("takes_many"):
        return _value(arguments[-1], current)
    return Expected()


def _value(value: ValueEntry, current: str, prefix: str = "") -> Expected:
    choices = dict.fromkeys(value.get("choices", ()), "")
    found = (Candidate(f"{prefix}{found.text}") for found in _starting(current, choices))
    return Expected(tuple(found), ValueKind(value["kind"]), current, prefix)


def _starting(current: str, texts: Mapping[str, str]) -> Iterator[Candidate]:
    """Yield the texts that begin with the current word, in any case."""
    lowered = current.lower()
    return (
        Candidate(text, summary)
        for text, summary in texts.items()
        if text.lower().startswith(lowered)
    )
