"""From the plain text of five fields to the values that match, by croniter."""

from collections.abc import Sequence

from tenantcron.cron.fields import FIELDS, Field

EVERY_VALUE = "*"


def expand(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the matching values of each of the five fields, in order."""
    # Importing croniter costs several times an interpreter's start: only who has a cron
    # expression to read pays for it.
    from croniter import croniter  # noqa: PLC0415

    expanded, _ = croniter.expand(" ".join(texts))
    return [_values(field, values) for field, values in zip(FIELDS, expanded, strict=True)]


def _values(field: Field, values: Sequence[int | str]) -> tuple[int, ...]:
    """Write out croniter's star, its word for every value of the field."""
    if EVERY_VALUE in values:
        return tuple(range(field.low, field.high + 1))
    return tuple(sorted(int(value) for value in values))
