"""Ids of executions in user input: complete, or their first characters."""

import re
from collections.abc import Sequence
from uuid import UUID

from tenantcron.core.errors import UsageError
from tenantcron.core.words import shortened

SHORTEST_PREFIX = 8
_DIGITS = 32
_TIME_PREFIX = 13
# Where a UUID has its version.
_VERSION = 14
# In ECMAScript's dialect as well, for the description of the API.
_HEX_DIGIT = "[0-9a-fA-F]"
PREFIX_PATTERN = (
    f"{_HEX_DIGIT}{{{SHORTEST_PREFIX}}}(-?{_HEX_DIGIT}){{0,{_DIGITS - SHORTEST_PREFIX}}}"
)
_AMBIGUOUS_SHOWN = 3
_HEX = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},{_DIGITS}}}")


def short_id(id_: str) -> str:
    """Return a prefix to show and to paste back.

    The id of a task (UUID version 7) begins with its time, so tasks of the same minute have the
    same first 8 characters. The first 13 contain the time in milliseconds.
    """
    return id_[:_TIME_PREFIX] if id_[_VERSION : _VERSION + 1] == "7" else id_[:SHORTEST_PREFIX]


def id_range(prefix: str) -> tuple[UUID, UUID]:
    """Return the first and the last id with a prefix."""
    digits = prefix.lower().replace("-", "")
    if _HEX.fullmatch(digits) is None:
        raise UsageError(
            f"{shortened(prefix)!a} is not an execution id or a prefix of at least "
            f"{SHORTEST_PREFIX} characters: `tenantcron execution list` shows ids"
        )
    return UUID(digits.ljust(_DIGITS, "0")), UUID(digits.ljust(_DIGITS, "f"))


def is_complete(prefix: str) -> bool:
    """Whether a prefix is a complete id."""
    return len(prefix.replace("-", "")) == _DIGITS


def unknown(prefix: str) -> str:
    """Return the message for a prefix of no execution."""
    return (
        f"no execution id begins with {prefix}: `tenantcron execution list` lists the retained "
        "executions"
    )


def ambiguous(prefix: str, ids: Sequence[str]) -> str:
    """Return the message for a prefix of several executions."""
    shown = ", ".join(ids[:_AMBIGUOUS_SHOWN])
    more = " and others" if len(ids) > _AMBIGUOUS_SHOWN else ""
    return f"several execution ids begin with {prefix}: use a longer prefix of {shown}{more}"
