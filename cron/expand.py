"""Expand the plain text of five fields to the matching values, with croniter."""

from collections.abc import Sequence
from functools import lru_cache

from tenantcron.cron.fields import FIELDS, Field

EVERY_VALUE = "*"


def expand(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the matching values of each of the five fields, in order."""
    return [_expanded(position, text) for position, text in enumerate(texts)]


@lru_cache(maxsize=4096)
def _expanded(position: int, text: str) -> tuple[int, ...]:
    """Expand one field; cached, because there are far fewer distinct fields than expressions."""
    field = FIELDS[position]
    if text == EVERY_VALUE:
        return tuple(range(field.low, field.high + 1))
    if text.isdigit():
        return (int(text),)
    # Importing croniter takes several times as long as starting the interpreter, so import it only
    # for a range, a step or a list.
    from croniter import croniter  # noqa: PLC0415 -- see above

    texts = [EVERY_VALUE] * len(FIELDS)
    texts[position] = text
    expanded, _ = croniter.expand(" ".join(texts))
    return _values(field, expanded[position])


def _values(field: Field, values: Sequence[int | str]) -> tuple[int, ...]:
    """Expand croniter's star, which means every value of the field."""
    if EVERY_VALUE in values:
        return tuple(range(field.low, field.high + 1))
    return tuple(sorted(int(value) for value in values))
