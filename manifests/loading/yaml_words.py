"""Messages for YAML syntax errors, which replace those of the parsers."""

from typing import NamedTuple, Protocol

from tenantcron.manifests.loading.characters import one_line
from tenantcron.manifests.loading.events import TextMark, Unreadable
from tenantcron.manifests.loading.unquoted import needs_quotes


class MarkedError(Protocol):
    """The fields of ruamel.yaml's error that are used."""

    context: str | None
    context_mark: TextMark | None
    problem: str | None
    problem_mark: TextMark | None


class _ErrorText(NamedTuple):
    """The message for all errors whose text contains the phrase."""

    phrase: str
    message: str
    hint: str | None = None
    at_start: bool = False  # report it at the start; the parser stops much later


# Phrases for a reserved first character: `@`, `%` and the backtick are reserved, and a name must
# follow `*` and `&`.
_RESERVED = ("that cannot start any token", "alphabetic or numeric")
_TAB = ("a tab is not allowed here", "use spaces for indentation")

# From specific to general. "{line}" is the first line of the incomplete value.
_ERROR_TEXTS = (
    _ErrorText(
        "mapping values are not allowed",
        "a `:` is not allowed here",
        "quote the value if the colon is part of it, and check the indentation of the line",
    ),
    _ErrorText(
        "sequence entries are not allowed",
        "a list entry cannot begin here",
        "put each `- ` on a separate line, indented like the entries before it",
    ),
    _ErrorText("tab character", *_TAB),
    _ErrorText("found unexpected ':'", "a `:` is not allowed here", "quote the value"),
    _ErrorText(
        "found unknown escape character",
        "the double-quoted string has an unknown escape",
        "write a backslash as \\\\, or use single quotes",
    ),
    _ErrorText(
        "hexdecimal number",  # the parsers' spelling
        "the escape has too few hexadecimal digits",
        "\\x takes two digits, \\u four and \\U eight",
    ),
    _ErrorText(
        "unexpected end of stream",
        "this quote is never closed",
        at_start=True,
    ),
    _ErrorText(
        "unexpected document separator",
        "this quote is not closed before `---` or `...`",
        at_start=True,
    ),
    _ErrorText(
        "expected ',' or '}'", "a `,` or the `}` of the mapping from line {line} is missing"
    ),
    _ErrorText("expected ',' or ']'", "a `,` or the `]` of the list from line {line} is missing"),
    _ErrorText(
        "could not find expected ':'",
        "a `:` is missing after this",
        "a key is one line, followed by `: ` and its value",
        at_start=True,
    ),
    _ErrorText(
        "expected key",
        "this does not continue the mapping from line {line}",
        "indent all keys equally, and quote values that contain quotes, brackets or colons",
    ),
    _ErrorText(
        "expected '-' indicator",
        "this does not continue the list from line {line}",
        "indent all entries equally, each with its own `- `",
    ),
    _ErrorText(
        "expected <block end>",
        "this does not continue the value from line {line}",
        "indent all entries equally, and quote values that contain quotes, brackets or colons",
    ),
    _ErrorText("node content", "a value is missing here"),
    _ErrorText("expected chomping or indentation", "only a number, + or - may follow `|` or `>`"),
    _ErrorText(
        "indentation indicator in the range", "the indentation after `|` or `>` must be 1 to 9"
    ),
    _ErrorText(
        "invalid Unicode character",
        "the escape is not a character",
        "write the character itself; YAML has no surrogate pairs",
    ),
    _ErrorText("undefined tag handle", "tags are not allowed", "remove the tag"),
)


def explain(text: str, error: MarkedError) -> Unreadable:
    """Return the error that stopped the parser, with its position."""
    problem, context = error.problem or "", error.context or ""
    mark = error.problem_mark or error.context_mark
    start = min(mark.index if mark else 0, len(text))
    begin = error.context_mark.index if error.context_mark else start
    if any(phrase in problem for phrase in _RESERVED) and text[start : start + 1] != "\t":
        return needs_quotes(text, begin)
    known = next((entry for entry in _ERROR_TEXTS if entry.phrase in problem), None)
    message, hint = (known.message, known.hint) if known else (_parser_message(problem), None)
    if text[start : start + 1] == "\t":
        message, hint = _TAB
    message = message.replace("{line}", str(_line(text, begin)))
    place = begin if known and known.at_start else start
    return Unreadable(message, place, place + 1, hint=hint, code=_code(problem, context))


def _code(problem: str, context: str) -> str:
    """Return the code: errors in tags and of invalid characters have their own."""
    if "tag handle" in problem or context.endswith(" tag"):
        return "TC007"
    return "TC009" if "invalid Unicode character" in problem else "TC003"


def _parser_message(problem: str) -> str:
    """Return the parser's message on one line."""
    return f"this cannot be read as YAML: {one_line(problem)}" if problem else "this is not YAML"


def _line(text: str, offset: int) -> int:
    """Return the line number of an offset."""
    before = text[:offset]
    return 1 + before.count("\n") + before.count("\r") - before.count("\r\n")
