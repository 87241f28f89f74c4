"""Resolve unquoted scalars with the core schema of YAML 1.2, and warn where YAML 1.1 differs."""

import re
from typing import NamedTuple

from tenantcron.core.values import JsonScalar
from tenantcron.manifests.loading.characters import one_line

# Longer numbers are rejected unread: no parser keeps them, and converting takes quadratic time.
_MAX_DIGITS = 400
_INT64 = range(-(2**63), 2**63)

_BEGINS_NUMBER = frozenset("0123456789+-.")
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_OLD_NUMBER = re.compile(
    r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+][0-9]+)?)"
)

# Rarely needed, so they are compiled on first use, not at every start.
_OTHER_BASE = r"0o[0-7]+|0x[0-9a-fA-F]+"
_NOT_FINITE = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_OLD_FLOAT = r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?"
_SIXTIES = r"[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
# 02:00 is the usual form of a time of day, here too, so it gets no warning.
_TIME_OF_DAY = r"[0-9]{2}:[0-9]{2}"


class ScalarFinding(NamedTuple):
    """A problem of a scalar: an error, or a value that other parsers read differently."""

    code: str
    message: str
    hint: str


Reading = tuple[JsonScalar, ScalarFinding | None]


def resolve(text: str) -> Reading:
    """Return the value of an unquoted scalar, and a finding if there is one."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _BEGINS_NUMBER:
        return _numeric(text)
    return text, None


def resolve_json(text: str) -> Reading:
    """Return the value of a JSON literal, on which all parsers agree."""
    value, finding = resolve(text)
    return value, finding if finding and finding.code != "TC013" else None


def _numeric(text: str) -> Reading:
    """Read a scalar that begins like a number."""
    if _DECIMAL.fullmatch(text):
        return _integer(text, 10)
    if _FLOAT.fullmatch(text):
        return _float(text)
    if text.startswith(("0o", "0x")) and re.fullmatch(_OTHER_BASE, text):
        return _integer(text, 0)
    if text[-1] in "fFnN" and re.fullmatch(_NOT_FINITE, text):
        return _not_portable(text, "is not a finite number")
    return _text(text)


def _integer(text: str, base: int) -> Reading:
    """Read an integer that fits into 64 bits; a leading zero does not make it octal."""
    if len(text) > _MAX_DIGITS or (number := int(text, base)) not in _INT64:
        return _not_portable(text, "does not fit into 64 bits")
    digits = text.lstrip("+-")
    if base == 10 and digits[0] == "0" and digits != "0":
        return number, _ambiguous_number(text, number, "octal or text")
    if text.startswith("0o"):
        return number, _ambiguous_number(text, number, "text")
    return number, None


def _float(text: str) -> Reading:
    """Read a number with a fraction or an exponent."""
    if len(text) > _MAX_DIGITS:
        return _not_portable(text, "has more digits than any parser keeps")
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return _not_portable(text, "is larger than any parser supports")
    if not re.fullmatch(_OLD_FLOAT, text):
        return number, _ambiguous_number(text, number, "text")
    return number, None


def _text(text: str) -> Reading:
    """Keep text that begins like a number, with a finding if YAML 1.1 reads it as a number."""
    if len(text) > _MAX_DIGITS:
        return text, None
    if ":" in text and re.fullmatch(_SIXTIES, text) and not re.fullmatch(_TIME_OF_DAY, text):
        return text, _ambiguous_text(text, "a base-60 number", "quote it")
    if _OLD_NUMBER.fullmatch(text):
        return text, _ambiguous_text(text, "a number", "quote it, or write the number plainly")
    return text, None


def _ambiguous_text(text: str, elsewhere: str, hint: str) -> ScalarFinding:
    """Return the finding for text that other parsers read differently."""
    short = one_line(text)
    message = f'`{short}` is the text "{short}" here, but some YAML parsers read it as {elsewhere}'
    return ScalarFinding("TC013", message, hint)


def _ambiguous_number(text: str, number: float, elsewhere: str) -> ScalarFinding:
    """Return the finding for a number that other parsers read differently."""
    message = (
        f"`{one_line(text)}` is the number {number!r} here, but some YAML parsers read it as "
        f"{elsewhere}"
    )
    return ScalarFinding("TC013", message, f"write {number!r}, or quote it if it is text")


def _not_portable(text: str, why: str) -> Reading:
    """Keep the number as text, with a finding."""
    return text, ScalarFinding("TC012", f"`{one_line(text)}` {why}", "quote it")


_WORDS: dict[str, Reading] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (None, None)),
    **dict.fromkeys(("true", "True", "TRUE"), (True, None)),
    **dict.fromkeys(("false", "False", "FALSE"), (False, None)),
    **{
        form: (form, _ambiguous_text(form, "a boolean", "write true or false, or quote it"))
        for word in ("yes", "no", "on", "off")
        for form in (word, word.title(), word.upper())
    },
}
