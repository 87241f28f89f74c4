"""The five fields of a cron expression: their names and valid values."""

from typing import NamedTuple

from tenantcron.cron.errors import CronError


class Field(NamedTuple):
    """One field: its values are `low` to `high`; `top` is the largest number accepted."""

    name: str
    low: int
    high: int
    top: int
    unit: str = ""
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many different values the field has."""
        return self.high - self.low + 1


MINUTE = Field("minute", 0, 59, 59, unit="m")
HOUR = Field("hour", 0, 23, 23, unit="h")
DAY_OF_MONTH = Field("day of month", 1, 31, 31, unit="d")
MONTH = Field(
    "month",
    1,
    12,
    12,
    names=("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
)
# 7 may be written and is Sunday, so the values themselves end at 6.
WEEKDAY = Field("weekday", 0, 6, 7, names=("sun", "mon", "tue", "wed", "thu", "fri", "sat"))

FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, WEEKDAY)
DAY_FIELDS = (DAY_OF_MONTH, WEEKDAY)


def term_error(field: Field, term: str, problem: str, hint: str | None = None) -> CronError:
    """Return an error that names the field, the term and the problem."""
    return CronError(f"{field.name} {term!r}: {problem}", hint)


def read_value(field: Field, text: str, term: str) -> int:
    """Read one number or name; `term` is the complete term, for the error message."""
    if text.isdigit():
        return _in_range(field, int(text), term)
    name = text.lower()
    if name in field.names:
        return field.low + field.names.index(name)
    raise _not_a_value(field, text, term)


def _in_range(field: Field, number: int, term: str) -> int:
    if field.low <= number <= field.top:
        return number
    raise term_error(field, term, f"{number} is out of range; it takes {field.low} to {field.top}")


def _not_a_value(field: Field, text: str, term: str) -> CronError:
    if not text:
        return term_error(field, term, "a number is missing")
    name = text[:3].lower()
    if name in field.names and text.isalpha():
        return term_error(field, term, "names have three letters", f"write {name}")
    known = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
    expected = f"it takes {field.low} to {field.top}{known}"
    return term_error(field, term, f"{text!r} is not understood; {expected}")
