"""Parse text to a timetable: five cron fields, a macro, `@every <duration>` or `@at <time>`.

This module checks the text itself; `expression` reads the five fields, `macros` everything that
begins with `@`. An expression that never fires is a valid timetable: `analysis` detects it.
"""

import re
from functools import lru_cache

from tenantcron.core.lookalikes import name_of
from tenantcron.cron.errors import CronError
from tenantcron.cron.expression import read_expression
from tenantcron.cron.macros import read_macro
from tenantcron.cron.timetable import Timetable

__all__ = ["LONGEST", "CronError", "parse"]

LONGEST = 256

# Anything but tabs and printable ASCII.
_INVALID = re.compile(r"[^\t -~]")


def parse(text: str) -> Timetable:
    """Read a timetable; raise a CronError that explains the problem and how to fix it."""
    return _parse(_checked(text))


@lru_cache(maxsize=512)
def _parse(text: str) -> Timetable:
    words = text.split()
    if words[0].startswith("@"):
        return read_macro(words)
    return read_expression(" ".join(words), words)


def _checked(text: object) -> str:
    """Return the text if it is a string, short, in ASCII, and not empty."""
    if not isinstance(text, str):
        kind = type(text).__name__
        raise CronError(f"a timetable is text, this is {kind}", "put it in quotes")
    if len(text) > LONGEST:
        raise CronError(f"a timetable has at most {LONGEST} characters, this one {len(text)}")
    invalid = _INVALID.search(text)
    if invalid is not None:
        raise _invalid_character(invalid[0])
    if not text.strip():
        raise CronError("the timetable is empty", "write for example 0 2 * * *")
    return text


def _invalid_character(character: str) -> CronError:
    # Shown as an escape: the character may be invisible, or a lone surrogate.
    shown = f"{character!a} ({name_of(character)})"
    message = f"the character {shown} is not allowed in a timetable"
    return CronError(message, "use ASCII letters, digits and symbols, separated by spaces")
