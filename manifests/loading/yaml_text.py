"""What is settled about a YAML text before a parser sees it, so that all parsers see the same."""

import re

from tenantcron.manifests.loading.characters import REPLACEMENT, describe
from tenantcron.manifests.loading.events import Unreadable
from tenantcron.manifests.loading.problems import Problems

# YAML's own set, and the three line separators that YAML 1.1 and 1.2 disagree on: to a parser
# of 1.1 they end a comment, so what a person sees as a comment could hold a key.
_PRINTABLE_ASCII = "\t\n\r\x20-\x7e"
_PRINTABLE = _PRINTABLE_ASCII + (
    "\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
)
_BLANK_LINES = re.compile(r"(?>[ \t]*+(?:#[^\r\n]*+)?(?:\r\n|\r|\n))*+")
# Few manifests need these, so they are compiled at their first use and not at every start.
_DIRECTIVE = r"%([^\r\n]*+)(?:\r\n|\r|\n|\Z)"
_YAML_1_2 = r"YAML[ \t]+1\.2[ \t]*(?:#.*)?"
_DOCUMENT_START = r"---(?:[ \t\r\n]|\Z)"


def settle(problems: Problems) -> str:
    """Return the text, of the same length, with all that is already reported made harmless."""
    text = problems.source.text
    return _settle_directives(_settle_characters(text, problems), problems)


def _settle_characters(text: str, problems: Problems) -> str:
    """Report characters that YAML does not allow and put stand-ins in their places."""
    # Of the two sets the large one takes longer to compile than most manifests to read.
    unprintable = re.compile(f"[^{_PRINTABLE_ASCII if text.isascii() else _PRINTABLE}]")
    if unprintable.search(text) is None:
        return text
    for match in unprintable.finditer(text):
        if problems.is_full("TC009"):
            break
        message = f"{describe(match.group())} is not allowed in YAML"
        problems.add("TC009", message, match.span(), hint="remove the character")
    return unprintable.sub(REPLACEMENT, text)


def _settle_directives(text: str, problems: Problems) -> str:
    """Turn directives into comments: libyaml takes quadratic time over many of them."""
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
    """Return the directive that the line at the position is, if it is one."""
    return re.compile(_DIRECTIVE).match(text, position) if text.startswith("%", position) else None


def _check_directive(directive: re.Match[str], problems: Problems) -> None:
    """Report all but the one that says what holds anyway; give up on a flood of them."""
    if problems.is_full("TC007"):
        raise Unreadable("too many directives", *directive.span(), code="TC007")
    if re.fullmatch(_YAML_1_2, directive.group(1)):
        return
    name = directive.group(1).partition(" ")[0][:20]
    message = f"the directive `%{name}` is not allowed; manifests are read as YAML 1.2"
    place = (directive.start(), directive.end(1))
    problems.add("TC007", message, place, hint="remove the line")


def _after_blank_lines(text: str, position: int) -> int:
    """Return where the next line begins that is neither blank nor a comment."""
    match = _BLANK_LINES.match(text, position)
    return match.end() if match else position
