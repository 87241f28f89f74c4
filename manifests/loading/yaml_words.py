"""What a YAML syntax error is called here: one sentence instead of the parser's own lines."""

from typing import NamedTuple, Protocol

from tenantcron.manifests.loading.characters import one_line
from tenantcron.manifests.loading.events import Unreadable
from tenantcron.manifests.loading.unquoted import needs_quotes


class _Mark(Protocol):
    index: int


class MarkedError(Protocol):
    """The part of ruamel.yaml's error that is used."""

    context: str | None
    context_mark: _Mark | None
    problem: str | None
    problem_mark: _Mark | None


class _Words(NamedTuple):
    """A sentence for all errors whose text holds the phrase."""

    phrase: str
    message: str
    hint: str | None = None
    at_start: bool = False  # point at where it begins: the end is only where patience ran out


# What stops a parser at a first character that is taken: `@`, `%` and the backtick are reserved,
# and a name must follow `*` and `&`.
_RESERVED = ("that cannot start any token", "alphabetic or numeric")
_TAB = ("a tab is not allowed here", "use blanks")

# From the special to the general. "{line}" is where the thing begins that could not be finished.
_SENTENCES = (
    _Words(
        "mapping values are not allowed",
        "a `:` is not allowed here",
        "quote the value if the colon is part of it, and check the indentation of the line",
    ),
    _Words(
        "sequence entries are not allowed",
        "a list entry cannot begin here",
        "put each `- ` on a line of its own, indented like the entries before it",
    ),
    _Words("tab character", *_TAB),
    _Words("found unexpected ':'", "a `:` is not allowed here", "put the value in quotes"),
    _Words(
        "found unknown escape character",
        "an unknown escape in a double-quoted string",
        "write a backslash as \\\\, or use single quotes",
    ),
    _Words(
        "hexdecimal number",  # in the parsers' own spelling
        "an escape with too few hexadecimal digits",
        "\\x takes two digits, \\u four and \\U eight",
    ),
    _Words(
        "unexpected end of stream",
        "this quote is never closed",
        at_start=True,
    ),
    _Words(
        "unexpected document separator",
        "this quote is not closed before `---` or `...`",
        at_start=True,
    ),
    _Words("expected ',' or '}'", "a `,` or the `}` of the mapping from line {line} is missing"),
    _Words("expected ',' or ']'", "a `,` or the `]` of the list from line {line} is missing"),
    _Words(
        "could not find expected ':'",
        "this has no `:` behind it",
        "a key is one line, followed by `: ` and its value",
        at_start=True,
    ),
    _Words(
        "expected key",
        "this does not continue the mapping from line {line}",
        "indent all keys alike, and quote values that hold quotes, brackets or colons",
    ),
    _Words(
        "expected '-' indicator",
        "this does not continue the list from line {line}",
        "indent all entries alike, each with its own `- `",
    ),
    _Words(
        "expected <block end>",
        "this does not continue what begins in line {line}",
        "indent all entries alike, and quote values that hold quotes, brackets or colons",
    ),
    _Words("node content", "a value is missing here"),
    _Words("expected chomping or indentation", "only a number, + or - may follow `|` or `>`"),
    _Words("indentation indicator in the range", "the indentation behind `|` or `>` is 1 to 9"),
    _Words(
        "invalid Unicode character",
        "an escape that stands for no character",
        "write the character itself; YAML has no surrogate pairs",
    ),
    _Words("undefined tag handle", "tags are not allowed", "remove the tag"),
)


def explain(text: str, error: MarkedError) -> Unreadable:
    """Say in one sentence what stopped the parser, and where."""
    problem, context = error.problem or "", error.context or ""
    mark = error.problem_mark or error.context_mark
    start = min(mark.index if mark else 0, len(text))
    begin = error.context_mark.index if error.context_mark else start
    if any(phrase in problem for phrase in _RESERVED) and text[start : start + 1] != "\t":
        return needs_quotes(text, begin)
    words = next((words for words in _SENTENCES if words.phrase in problem), None)
    message, hint = (words.message, words.hint) if words else (_unworded(problem), None)
    if text[start : start + 1] == "\t":
        message, hint = _TAB
    message = message.replace("{line}", str(_line(text, begin)))
    place = begin if words and words.at_start else start
    return Unreadable(message, place, place + 1, hint=hint, code=_code(problem, context))


def _code(problem: str, context: str) -> str:
    """Tell errors inside tags and of impossible characters from those of syntax."""
    if "tag handle" in problem or context.endswith(" tag"):
        return "TC007"
    return "TC009" if "invalid Unicode character" in problem else "TC003"


def _unworded(problem: str) -> str:
    """Use the parser's own words, on one line."""
    return f"this cannot be read as YAML: {one_line(problem)}" if problem else "this is not YAML"


def _line(text: str, offset: int) -> int:
    """Return the number of the line of an offset."""
    before = text[:offset]
    return 1 + before.count("\n") + before.count("\r") - before.count("\r\n")
