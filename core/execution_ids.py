"""Ids of executions and tasks in user input: complete, or their first characters."""

import re
from collections.abc import Sequence
from uuid import UUID

from tenantcron.core.errors import UsageError
from tenantcron.core.words import shortened

SHORTEST_PREFIX = 8
_DIGITS = 32
# The first 12 digits are a time in milliseconds, and the next three count within it.
_TIME_PREFIXES = (13, 18)
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
    return id_[: _TIME_PREFIXES[0]] if _begins_with_time(id_) else id_[:SHORTEST_PREFIX]


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return a prefix of each id of a list; those of tasks are longer if they are not distinct."""
    tasks = {id_ for id_ in ids if _begins_with_time(id_)}
    lengths = (*_TIME_PREFIXES, None)
    length = next(size for size in lengths if len({id_[:size] for id_ in tasks}) == len(tasks))
    return [id_[:length] if id_ in tasks else short_id(id_) for id_ in ids]


def _begins_with_time(id_: str) -> bool:
    return id_[_VERSION : _VERSION + 1] == "7"


def is_prefix(text: str) -> bool:
    """Whether a text is an id or a prefix that is long enough."""
    return _HEX.fullmatch(text.lower().replace("-", "")) is not None


def id_range(prefix: str, kind: str = "execution") -> tuple[UUID, UUID]:
    """Return the first and the last id with a prefix."""
    if not is_prefix(prefix):
        article = "an" if kind == "execution" else "a"
        raise UsageError(
            f"{shortened(prefix)!a} is not {article} {kind} id or a prefix of at least "
            f"{SHORTEST_PREFIX} characters: `tenantcron {kind} list` shows ids"
        )
    digits = prefix.lower().replace("-", "")
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


def ambiguous(prefix: str, ids: Sequence[str], kind: str = "execution") -> str:
    """Return the message for a prefix of several executions or tasks."""
    shown = ", ".join(ids[:_AMBIGUOUS_SHOWN])
    more = " and others" if len(ids) > _AMBIGUOUS_SHOWN else ""
    return f"several {kind} ids begin with {prefix}: use a longer prefix of {shown}{more}"
