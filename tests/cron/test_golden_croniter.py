"""Golden tests of how croniter expands the plain forms, for every shape of term.

An upgrade of croniter that reads one of them differently fails here.
"""

from dataclasses import dataclass

import pytest
from croniter import croniter

from tenantcron.cron.expand import expand
from tenantcron.cron.fields import FIELDS, WEEKDAY, Field
from tenantcron.cron.terms import plain_term

ALL = ["*", "*", "*", "*", "*"]


@dataclass(frozen=True, slots=True)
class Plain:
    """A term as written, and the plain form that croniter receives."""

    position: int
    term: str
    plain: str


REWRITTEN = (
    Plain(position=0, term="*", plain="*"),
    Plain(position=0, term="*/7", plain="*/7"),
    Plain(position=0, term="05", plain="5"),
    Plain(position=0, term="1-9", plain="1-9"),
    Plain(position=0, term="1-9/2", plain="1-9/2"),
    Plain(position=0, term="1-9/1", plain="1-9"),
    Plain(position=0, term="59/15", plain="59"),
    Plain(position=0, term="58/15", plain="58-59/15"),
    Plain(position=1, term="23/6", plain="23"),
    Plain(position=2, term="31/5", plain="31"),
    Plain(position=3, term="dec/2", plain="12"),
    Plain(position=3, term="jan-MAR", plain="1-3"),
    Plain(position=4, term="7", plain="0"),
    Plain(position=4, term="sat/2", plain="6"),
    Plain(position=4, term="fri-sun", plain="5,6,0"),
    Plain(position=4, term="mon-7/3", plain="1,4,0"),
    Plain(position=4, term="0-7", plain="0,1,2,3,4,5,6,0"),
)

every_field = pytest.mark.parametrize("position", range(5), ids=[field.name for field in FIELDS])


def values(position: int, text: str) -> tuple[int, ...]:
    """Expand one field, with stars in all others."""
    return expand([*ALL[:position], text, *ALL[position + 1 :]])[position]


def every(field: Field) -> tuple[int, ...]:
    """Return all values of the field."""
    return tuple(range(field.low, field.high + 1))


@pytest.mark.parametrize("case", REWRITTEN, ids=lambda case: case.term)
def test_terms_are_rewritten_before_croniter_sees_them(case: Plain) -> None:
    assert plain_term(FIELDS[case.position], case.term) == case.plain


@every_field
def test_a_star_is_every_value(position: int) -> None:
    assert values(position, "*") == every(FIELDS[position])


@every_field
def test_a_number_is_itself(position: int) -> None:
    for number in every(FIELDS[position]):
        assert values(position, str(number)) == (number,)


@every_field
def test_a_step_counts_from_the_lowest_value(position: int) -> None:
    field = FIELDS[position]
    for step in range(1, field.size + 1):
        assert values(position, f"*/{step}") == every(field)[::step]


@every_field
def test_a_range_includes_both_ends(position: int) -> None:
    field = FIELDS[position]
    for low in every(field):
        for high in range(low + 1, field.high + 1):
            assert values(position, f"{low}-{high}") == tuple(range(low, high + 1))


@every_field
@pytest.mark.parametrize("step", [2, 3, 5, 7])
def test_a_range_with_a_step_counts_from_its_first_value(position: int, step: int) -> None:
    field = FIELDS[position]
    for low in every(field)[::4]:
        for high in range(low + 1, field.high + 1):
            assert values(position, f"{low}-{high}/{step}") == tuple(range(low, high + 1, step))


@every_field
def test_a_list_is_the_union_of_its_terms(position: int) -> None:
    field = FIELDS[position]
    low, high = field.low, field.high
    text = f"{high},{low}-{low + 2},{low + 1},{low}-{high}/3"
    expected = {high, low, low + 1, low + 2, *range(low, high + 1, 3)}
    assert values(position, text) == tuple(sorted(expected))


@pytest.mark.parametrize("weekday", ["*", "*/2", "1", "1-5"])
def test_a_full_range_of_days_is_every_day_whatever_the_weekday(weekday: str) -> None:
    assert expand(["0", "0", "1-31", "*", weekday])[2] == tuple(range(1, 32))
    assert expand(["0", "0", "1", "*", "0-6"])[4] == every(WEEKDAY)


@pytest.mark.parametrize(
    ("text", "position", "misread_as"),
    [
        ("30-30 * * * *", 0, ["*"]),
        ("59/15 * * * *", 0, [0, 15, 30, 45]),
        ("0 0 * * thu-tue/2", 4, [2, 4, 6]),
    ],
)
def test_the_known_traps_are_still_there(
    text: str, position: int, misread_as: list[int | str]
) -> None:
    # If this fails, croniter has fixed a bug. Check what else it reads differently before you raise
    # the pin.
    assert croniter.expand(text)[0][position] == misread_as
