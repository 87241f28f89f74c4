"""Characters that are not allowed in strings of a manifest, because PostgreSQL rejects them."""

import re

from tenantcron.core.words import shortened

# C0 and C1 except tab, line feed and carriage return; DEL; halves of surrogate pairs. Most runs
# never need it, so `re` compiles it on first use, not at every start.
_FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]"
REPLACEMENT = "\ufffd"
_LOOKED_AT = 1_000


def first_forbidden(text: str) -> str | None:
    """Return the first forbidden character of a text, if there is one."""
    match = re.search(_FORBIDDEN, text)
    return match.group() if match else None


def without_forbidden(text: str) -> str:
    """Return the text with forbidden characters replaced, so later checks can continue."""
    return re.sub(_FORBIDDEN, REPLACEMENT, text)


def one_line(text: str) -> str:
    """Return a text for a message: on one line, shortened, without invisible characters."""
    return shortened(without_forbidden(" ".join(text[:_LOOKED_AT].split())))


def describe(character: str) -> str:
    """Describe a character that cannot be displayed."""
    number = f"U+{ord(character):04X}"
    if character == "\x00":
        return f"a NUL ({number})"
    if "\ud800" <= character <= "\udfff":
        return f"half of a surrogate pair ({number})"
    if character in "\u2028\u2029\x85":
        return f"an invisible line separator ({number})"
    if character == "\ufeff":
        return f"a byte order mark inside the text ({number})"
    return f"a control character ({number})"
