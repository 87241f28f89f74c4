"""From text to a timetable: five cron fields, a macro, `@every <duration>` or `@at <time>`.

This module decides which text is looked at at all; `expression` reads the five fields, `at_words`
whatever begins with `@`. An expression that never fires is a timetable like any other: `analysis`
tells.
"""

import re
from functools import lru_cache

from tenantcron.cron.at_words import read_at_word
from tenantcron.cron.errors import CronError
from tenantcron.cron.expression import read_expression
from tenantcron.cron.timetable import Timetable

__all__ = ["LONGEST", "CronError", "parse"]

LONGEST = 256

# Anything but the tab and what ASCII can print.
_STRANGE = re.compile(r"[^\t -~]")


def parse(text: str) -> Timetable:
    """Read a timetable; a CronError says what is wrong with the text and what to write instead."""
    return _parse(_checked(text))


@lru_cache(maxsize=512)
def _parse(text: str) -> Timetable:
    words = text.split()
    if words[0].startswith("@"):
        return read_at_word(words)
    return read_expression(" ".join(words), words)


def _checked(text: object) -> str:
    """Return the text if it is one, short, in ASCII, and not empty."""
    if not isinstance(text, str):
        kind = type(text).__name__
        raise CronError(f"a timetable is text, this is {kind}", "put it in quotes")
    if len(text) > LONGEST:
        raise CronError(f"a timetable has at most {LONGEST} characters, this one {len(text)}")
    stranger = _STRANGE.search(text)
    if stranger is not None:
        raise _strange(stranger[0])
    if not text.strip():
        raise CronError("the timetable is empty", "write for example 0 2 * * *")
    return text


def _strange(character: str) -> CronError:
    # Written as an escape: the character may be invisible, or half of one.
    shown = f"{character!a} (U+{ord(character):04X})"
    message = f"the character {shown} has no place in a timetable"
    return CronError(message, "use ASCII letters, digits and signs, separated by blanks")
