"""Sanitise YAML text before parsing, so all parsers see the same."""

import re

from tenantcron.manifests.loading.characters import REPLACEMENT, describe
from tenantcron.manifests.loading.events import Unreadable
from tenantcron.manifests.loading.problems import Problems

# YAML's set without the three line separators on which YAML 1.1 and 1.2 disagree: a 1.1 parser ends
# a comment there, so text that looks like a comment could contain a key.
_PRINTABLE_ASCII = "\t\n\r\x20-\x7e"
_PRINTABLE = _PRINTABLE_ASCII + (
    "\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
)
_BLANK_LINES = re.compile(r"(?>[ \t]*+(?:#[^\r\n]*+)?(?:\r\n|\r|\n))*+")
# Few manifests need these, so they are compiled on first use, not at every start.
_DIRECTIVE = r"%([^\r\n]*+)(?:\r\n|\r|\n|\Z)"
_YAML_1_2 = r"YAML[ \t]+1\.2[ \t]*(?:#.*)?"
_DOCUMENT_START = r"---(?:[ \t\r\n]|\Z)"


def sanitise(problems: Problems) -> str:
    """Return the text, with the same length, with reported characters and directives replaced."""
    text = problems.source.text
    return _sanitise_directives(_sanitise_characters(text, problems), problems)


def _sanitise_characters(text: str, problems: Problems) -> str:
    """Report and replace characters that YAML does not allow."""
    # Compiling the large set takes longer than reading most manifests.
    unprintable = re.compile(f"[^{_PRINTABLE_ASCII if text.isascii() else _PRINTABLE}]")
    if unprintable.search(text) is None:
        return text
    for match in unprintable.finditer(text):
        if problems.is_full("TC009"):
            break
        message = f"{describe(match.group())} is not allowed in YAML"
        problems.add("TC009", message, match.span(), hint="remove the character")
    return unprintable.sub(REPLACEMENT, text)


def _sanitise_directives(text: str, problems: Problems) -> str:
    """Turn directives into comments: libyaml takes quadratic time for many of them."""
    pieces: list[str] = []
    position = _after_blank_lines(text, 0)
    kept = 0
    while directive := _directive(text, position):
        _check_directive(directive, problems)
        pieces += (text[kept:position], "#")
        kept = position + 1
        position = _after_blank_lines(text, directive.end())
    if pieces and not re.compile(_DOCUMENT_START).match(text, position):
        raise Unreadable("a line with `---` must follow the directives", position, position + 1)
    return "".join(pieces) + text[kept:]


def _directive(text: str, position: int) -> re.Match[str] | None:
    """Return the directive at a position, if there is one."""
    return re.compile(_DIRECTIVE).match(text, position) if text.startswith("%", position) else None


def _check_directive(directive: re.Match[str], problems: Problems) -> None:
    """Report every directive except `%YAML 1.2`; stop if there are too many."""
    if problems.is_full("TC007"):
        raise Unreadable("too many directives", *directive.span(), code="TC007")
    if re.fullmatch(_YAML_1_2, directive.group(1)):
        return
    name = directive.group(1).partition(" ")[0][:20]
    message = f"the directive `%{name}` is not allowed; manifests are read as YAML 1.2"
    place = (directive.start(), directive.end(1))
    problems.add("TC007", message, place, hint="remove the line")


def _after_blank_lines(text: str, position: int) -> int:
    """Return the start of the next line that is neither blank nor a comment."""
    match = _BLANK_LINES.match(text, position)
    return match.end() if match else position
