"""Compare with cronsim, in the part of the dialect that both read in the same way."""

from datetime import UTC, datetime
from itertools import islice

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cron_expressions import Term, plain_terms

from tenantcron.cron.analysis import never_fires
from tenantcron.cron.occurrences import next_occurrence, previous_occurrence, upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    """Draw a field of one to three plain terms."""
    terms = st.lists(plain_terms(low, high), min_size=1, max_size=3)
    return terms.map(_joined)


def _joined(terms: list[Term]) -> str:
    return ",".join(term.text for term in terms)


def _without_open_steps(text: str) -> bool:
    # `a/n` ends on Saturday here, and on a Sunday written as 7 in cronsim.
    return all("/" not in term or term[0] == "*" or "-" in term for term in text.split(","))


DAYS = st.just("*") | fields(1, 31) | st.sampled_from(["L", "LW", "1,L", "LW,15"])
MONTHS = st.just("*") | fields(1, 12) | st.sampled_from(["JAN", "feb,mar", "jun-AUG"])
WEEKDAYS = (
    st.just("*")
    | fields(0, 6).filter(_without_open_steps)
    | st.sampled_from(["7", "5-7", "mon-fri", "MON,sat", "5#1", "1#2,3#4", "FRI#5", "5L", "0L,1L"])
)
EXPRESSIONS = st.tuples(fields(0, 59), fields(0, 23), DAYS, MONTHS, WEEKDAYS).map(" ".join)
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1))  # noqa: DTZ001 -- the strategy requires naive ones


def cronsim_next(text: str, moment: datetime, count: int) -> list[datetime]:
    """Return the next occurrences by cronsim, in UTC; occurrences on one instant are one."""
    found: list[datetime] = []
    # cronsim yields each skipped time separately, so there are more steps than occurrences.
    for occurrence in islice(CronSim(text, moment), count + 120):
        instant = occurrence.astimezone(UTC)
        if not found or instant > found[-1]:
            found.append(instant)
        if len(found) == count:
            break
    return found


def cronsim_rejects(text: str, moment: datetime) -> bool:
    """Whether cronsim detects that the expression never fires, within fifty years or by parsing."""
    try:
        return next(CronSim(text, moment), None) is None
    except CronSimError:
        return True


@settings(max_examples=170)
@given(texts=st.lists(EXPRESSIONS, min_size=12, max_size=12), moment=MOMENTS)
def test_both_agree_in_utc(texts: list[str], moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    for text in texts:
        timetable = parse(text)
        if never_fires(timetable):
            assert cronsim_rejects(text, moment), text
            continue
        following = next_occurrence(timetable, zone("UTC"), moment)
        assert following == next(CronSim(text, moment)), text
        previous = previous_occurrence(timetable, zone("UTC"), moment)
        assert previous == next(CronSim(text, moment, reverse=True)), text


# Both follow the clock if the hour begins with a star, and both keep fixed times if neither the
# minute nor the hour does. In between, for instance `*/5 2 * * *`, the two rules differ.
MINUTES_OF_FIXED = fields(0, 59).filter(lambda text: text[0] != "*")
FIXED = st.tuples(MINUTES_OF_FIXED, fields(0, 23).filter(lambda text: text[0] != "*"))
SHOWN = st.tuples(fields(0, 59), fields(0, 23).filter(lambda text: text[0] == "*"))
TIMES = (FIXED | SHOWN).map(" ".join)


@pytest.mark.parametrize(
    ("name", "eve"),
    [
        ("Europe/London", "2026-03-28T20:13"),
        ("Europe/London", "2026-10-24T20:13"),
        ("America/New_York", "2026-03-08T01:13"),
        ("America/New_York", "2026-11-01T01:13"),
        ("America/Sao_Paulo", "2018-11-03T20:13"),
        ("America/Sao_Paulo", "2019-02-16T20:13"),
    ],
)
@settings(max_examples=60)
@given(times=TIMES)
def test_both_agree_over_a_clock_change_of_an_hour(name: str, eve: str, times: str) -> None:
    moment = datetime.fromisoformat(eve).replace(tzinfo=UTC)
    text = f"{times} * * *"
    ours = list(islice(upcoming(parse(text), zone(name), moment), 40))
    assert ours == cronsim_next(text, moment.astimezone(zone(name)), 40), text
