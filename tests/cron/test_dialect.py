"""Which forms the dialect accepts and rejects, and the error messages."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tenantcron.core.errors import TenantcronError
from tenantcron.cron.parse import CronError, parse
from tenantcron.cron.timetable import CronTimetable, IntervalTimetable, SingleTimetable


@dataclass(frozen=True, slots=True)
class Same:
    """A form, and a plainer one that means the same."""

    form: str
    plain: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A form, what is wrong with it, and what to write instead."""

    form: str
    message: str
    hint: str | None


SAME = (
    Same(form="*/15 * * * *", plain="0,15,30,45 * * * *"),
    Same(form="*/60 * * * *", plain="0 * * * *"),
    Same(form="5/20 * * * *", plain="5,25,45 * * * *"),
    Same(form="59/15 * * * *", plain="59 * * * *"),
    Same(form="10-20/5 * * * *", plain="10,15,20 * * * *"),
    Same(form="007 * * * *", plain="7 * * * *"),
    Same(form="5,5,1-3,2 * * * *", plain="1,2,3,5 * * * *"),
    Same(form="0 23/6 * * *", plain="0 23 * * *"),
    Same(form="0 20/2 * * *", plain="0 20,22 * * *"),
    Same(form="0 0 31/5 * *", plain="0 0 31 * *"),
    Same(form="0 0 1 jan,MAR *", plain="0 0 1 1,3 *"),
    Same(form="0 0 1 Apr-jun *", plain="0 0 1 4,5,6 *"),
    Same(form="0 0 1 feb/4 *", plain="0 0 1 2,6,10 *"),
    Same(form="0 0 1 12/3 *", plain="0 0 1 12 *"),
    Same(form="0 0 * * 7", plain="0 0 * * 0"),
    Same(form="0 0 * * SUN", plain="0 0 * * 0"),
    Same(form="0 0 * * mon-fri", plain="0 0 * * 1,2,3,4,5"),
    Same(form="0 0 * * fri-sun", plain="0 0 * * 0,5,6"),
    Same(form="0 0 * * 5-0", plain="0 0 * * 0,5,6"),
    Same(form="0 0 * * 5-7", plain="0 0 * * 0,5,6"),
    Same(form="0 0 * * sat-7", plain="0 0 * * 0,6"),
    Same(form="0 0 * * mon-sun/2", plain="0 0 * * 0,1,3,5"),
    Same(form="0 0 * * thu-sun/2", plain="0 0 * * 4,6"),
    Same(form="0 0 1 * 0-7", plain="0 0 1 * 0,1,2,3,4,5,6"),
    Same(form="0 0 * * 1/2", plain="0 0 * * 1,3,5"),
    Same(form="0 0 * * 7/2", plain="0 0 * * 0"),
    Same(form="0 0 ? * ?", plain="0 0 * * *"),
    Same(form="0 0 ? * 1", plain="0 0 * * 1"),
    Same(form="0 0 l * *", plain="0 0 L * *"),
    Same(form="0 0 lw * *", plain="0 0 LW * *"),
    Same(form="0 0 15w * *", plain="0 0 15W * *"),
    Same(form="0 0 * * FRI#2", plain="0 0 * * 5#2"),
    Same(form="0 0 * * 7#2", plain="0 0 * * 0#2"),
    Same(form="0 0 * * friL", plain="0 0 * * 5l"),
    Same(form="0 0 * * 7L", plain="0 0 * * 0L"),
    Same(form="  0\t0  1 *   * ", plain="0 0 1 * *"),
    Same(form="@hourly", plain="0 * * * *"),
    Same(form="@daily", plain="0 0 * * *"),
    Same(form="@midnight", plain="0 0 * * *"),
    Same(form="@weekly", plain="0 0 * * 0"),
    Same(form="@monthly", plain="0 0 1 * *"),
    Same(form="@yearly", plain="0 0 1 1 *"),
    Same(form="@Annually", plain="0 0 1 1 *"),
)

DIFFERENT = (
    Same(form="0 0 L * *", plain="0 0 31 * *"),
    Same(form="0 0 L-1 * *", plain="0 0 L * *"),
    Same(form="0 0 LW * *", plain="0 0 L * *"),
    Same(form="0 0 15W * *", plain="0 0 15 * *"),
    Same(form="0 0 * * 5#2", plain="0 0 * * 5"),
    Same(form="0 0 * * 5L", plain="0 0 * * 5#4"),
    # `*/1` and `1-31` match the same days, but with the second form either day field may match.
    Same(form="0 0 */1 * 1", plain="0 0 1-31 * 1"),
)

FIELDS = "minute, hour, day of month, month, weekday"
COUNT = f"a cron expression has 5 fields ({FIELDS}), this one has"
EXAMPLE = "write for example 0 2 * * * for every day at 02:00"
NO_SECONDS = "seconds and years are not supported"
ASCII_ONLY = "use ASCII letters, digits and symbols, separated by spaces"
NO_HASH = "hashed (H) and random (R) values are not supported: schedules have fixed times"
NUMBER_INSTEAD = "write a number; spread: 10m distributes the starts"
NTH = "the number after # must be from 1 to 5"
NTH_HINT = "write mon#1 for the first Monday, monL for the last"
BACK = "the number after L- must be from 1 to 30"
TIME_HINT = "write for example @at 2026-12-01T09:00:00Z or @at 2026-12-01T09:00:00+01:00"

REJECTED = (
    Rejected("", "the timetable is empty", "write for example 0 2 * * *"),
    Rejected(" \t", "the timetable is empty", "write for example 0 2 * * *"),
    Rejected("0 0 * *", f"{COUNT} 4", EXAMPLE),
    Rejected("daily", f"{COUNT} 1", EXAMPLE),
    Rejected("0 0 0 0 0 0 0 0", f"{COUNT} 8", EXAMPLE),
    Rejected(
        "0 30 2 * * *",
        f"{COUNT} 6; {NO_SECONDS}",
        "drop the first field (seconds): 30 2 * * *",
    ),
    Rejected(
        "30 2 1 1 * 2027",
        f"{COUNT} 6; {NO_SECONDS}",
        "drop the last field (years): 30 2 1 1 *",
    ),
    Rejected(
        "0 30 2 * * ? *",
        f"{COUNT} 7; {NO_SECONDS}",
        "drop the first field (seconds) and the last one (years): 30 2 * * ?",
    ),
    Rejected(
        "0 0 * * *\n",
        r"the character '\n' (U+000A) is not allowed in a timetable",
        ASCII_ONLY,
    ),
    Rejected(
        "0\u00a00 * * *",
        r"the character '\xa0' (NO-BREAK SPACE, U+00A0) is not allowed in a timetable",
        ASCII_ONLY,
    ),
    Rejected(
        "\u0663 0 * * *",
        r"the character '\u0663' (ARABIC-INDIC DIGIT THREE, U+0663) is not allowed in a timetable",
        ASCII_ONLY,
    ),
    Rejected(
        "\udc80 0 * * *",
        r"the character '\udc80' (U+DC80) is not allowed in a timetable",
        ASCII_ONLY,
    ),
    Rejected("0 " * 129, "a timetable has at most 256 characters, this one 258", None),
    Rejected(
        "@reboot",
        "@reboot is not supported: schedules do not depend on when a replica starts",
        "write a time, or start the work from a deploy step",
    ),
    Rejected("@dayly", "@dayly is not a timetable", "did you mean @daily?"),
    Rejected(
        "@sometimes",
        "@sometimes is not a timetable",
        "use one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, @every, @at",
    ),
    Rejected("@daily 5", "@daily takes no argument, got '5'", "write @daily"),
    Rejected("H * * * *", f"minute 'H': {NO_HASH}", NUMBER_INSTEAD),
    Rejected("h/15 * * * *", f"minute 'h/15': {NO_HASH}", NUMBER_INSTEAD),
    Rejected("0 H(0-3) * * *", f"hour 'H(0-3)': {NO_HASH}", NUMBER_INSTEAD),
    Rejected("0 R * * *", f"hour 'R': {NO_HASH}", NUMBER_INSTEAD),
    Rejected(
        "5-5 * * * *", "minute '5-5': the range starts and ends with the same value", "write 5"
    ),
    Rejected(
        "0 0 * * 7-0", "weekday '7-0': the range starts and ends with the same value", "write 0"
    ),
    Rejected(
        "0 0 * * sun-SUN",
        "weekday 'sun-SUN': the range starts and ends with the same value",
        "write 0",
    ),
    Rejected("0 22-6 * * *", "hour '22-6': the range runs backwards", "write 22-23,0-6"),
    Rejected("0 23-0 * * *", "hour '23-0': the range runs backwards", "write 23,0"),
    Rejected("0 22-6/2 * * *", "hour '22-6/2': the range runs backwards", "write 22,0,2,4,6"),
    Rejected("0 0 1 nov-feb *", "month 'nov-feb': the range runs backwards", "write 11-12,1-2"),
    Rejected("0 0 1 nov-feb/3 *", "month 'nov-feb/3': the range runs backwards", "write 11,2"),
    Rejected("0 0 * * sat-mon", "weekday 'sat-mon': the range runs backwards", "write 6,0-1"),
    Rejected("0 0 * * 7-3", "weekday '7-3': the range runs backwards", "write 0-3"),
    Rejected(
        "*/0 * * * *",
        "minute '*/0': the step must not be 0",
        "write a step of 1 or more",
    ),
    Rejected(
        "*/90 * * * *",
        "minute '*/90': a step of 90 is larger than the range of the field (0 to 59), "
        "so only the first value would ever match",
        "write that value, or every: 90m for a fixed interval",
    ),
    Rejected(
        "0 5-9/36 * * *",
        "hour '5-9/36': a step of 36 is larger than the range of the field (0 to 23), "
        "so only the first value would ever match",
        "write that value, or every: 36h for a fixed interval",
    ),
    Rejected(
        "0 0 1 */13 *",
        "month '*/13': a step of 13 is larger than the range of the field (1 to 12), "
        "so only the first value would ever match",
        "write that value",
    ),
    Rejected("*/ * * * *", "minute '*/': the step after the slash must be a number", None),
    Rejected("*/5/5 * * * *", "minute '*/5/5': the step after the slash must be a number", None),
    Rejected("60 * * * *", "minute '60': 60 is out of range; it takes 0 to 59", None),
    Rejected("0 24 * * *", "hour '24': 24 is out of range; it takes 0 to 23", None),
    Rejected("0 0 0 * *", "day of month '0': 0 is out of range; it takes 1 to 31", None),
    Rejected("0 0 32 * *", "day of month '32': 32 is out of range; it takes 1 to 31", None),
    Rejected("0 0 1 0 *", "month '0': 0 is out of range; it takes 1 to 12", None),
    Rejected("0 0 * * 8", "weekday '8': 8 is out of range; it takes 0 to 7", None),
    Rejected("0 0 1-40 * *", "day of month '1-40': 40 is out of range; it takes 1 to 31", None),
    Rejected("1,,2 * * * *", "minute '1,,2': a term in the list is empty", "remove a comma"),
    Rejected("1, * * * *", "minute '1,': a term in the list is empty", "remove a comma"),
    Rejected("-5 * * * *", "minute '-5': a number is missing", None),
    Rejected("5- * * * *", "minute '5-': a number is missing", None),
    Rejected("1.5 * * * *", "minute '1.5': '1.5' is not understood; it takes 0 to 59", None),
    Rejected("*5 * * * *", "minute '*5': '*5' is not understood; it takes 0 to 59", None),
    Rejected("0 mon * * *", "hour 'mon': 'mon' is not understood; it takes 0 to 23", None),
    Rejected(
        "0 0 1 foo *",
        "month 'foo': 'foo' is not understood; it takes 1 to 12, or jan to dec",
        None,
    ),
    Rejected("0 0 * * Monday", "weekday 'Monday': names have three letters", "write mon"),
    Rejected("? * * * *", "minute '?': ? is allowed only in the two day fields", "write *"),
    Rejected(
        "0 0 ?,5 * *",
        "day of month '?,5': ? must be the only term of the field",
        "write ?",
    ),
    Rejected("L * * * *", "minute 'L': 'L' is not understood; it takes 0 to 59", None),
    Rejected("0 0 L-0 * *", f"day of month 'L-0': {BACK}", "write L for the last day itself"),
    Rejected("0 0 L-31 * *", f"day of month 'L-31': {BACK}", "write L for the last day itself"),
    Rejected("0 0 32W * *", "day of month '32W': 32 is out of range; it takes 1 to 31", None),
    Rejected(
        "0 0 W15 * *",
        "day of month 'W15': the W for the nearest workday goes after the day",
        "write 15W",
    ),
    Rejected(
        "0 0 1-5W * *",
        "day of month '1-5W': '5W' is not understood; it takes 1 to 31",
        None,
    ),
    Rejected(
        "0 0 * * L",
        "weekday 'L': L needs a weekday before it",
        "write 5L for the last Friday, 6 for Saturday",
    ),
    Rejected(
        "0 0 * * L5",
        "weekday 'L5': the L for the last weekday goes after the weekday",
        "write 5L",
    ),
    Rejected("0 0 * * 1#0", f"weekday '1#0': {NTH}", NTH_HINT),
    Rejected("0 0 * * 1#", f"weekday '1#': {NTH}", NTH_HINT),
    Rejected("0 0 * * 1#10", f"weekday '1#10': {NTH}", NTH_HINT),
    Rejected("0 0 * * #2", "weekday '#2': a number is missing", None),
    Rejected(
        "@every",
        "@every: '' is not a duration such as 90s, 15m, 1h30m or 7d",
        "write for example @every 45m",
    ),
    Rejected(
        "@every 45 m",
        "@every: '45 m' is not a duration such as 90s, 15m, 1h30m or 7d",
        "write for example @every 45m",
    ),
    Rejected("@every 0m", "@every: the interval '0m' is zero", "write 1s or more"),
    Rejected("@at", "@at: '' is not a time such as 2026-12-01T09:00:00", TIME_HINT),
    Rejected(
        "@at 2026-12-01",
        "@at: '2026-12-01' is not a time such as 2026-12-01T09:00:00",
        TIME_HINT,
    ),
    Rejected(
        "@at 2026-12-01T09:00:00",
        "@at: '2026-12-01T09:00:00' has no UTC offset",
        TIME_HINT,
    ),
    Rejected(
        "@at 2026-02-30T09:00:00Z",
        "@at: '2026-02-30T09:00:00Z' is not a valid date and time",
        TIME_HINT,
    ),
    Rejected(
        "@at 0001-01-01T00:00:00+14:00",
        "@at: '0001-01-01T00:00:00+14:00' is not a valid date and time",
        TIME_HINT,
    ),
)


def cron(text: str) -> CronTimetable:
    """Parse a cron expression, without its text for comparisons."""
    timetable = parse(text)
    assert isinstance(timetable, CronTimetable)
    return timetable._replace(expression="")


@pytest.mark.parametrize("case", SAME, ids=lambda case: case.form)
def test_means_the_same_as_the_plainer_form(case: Same) -> None:
    # A leading star has a meaning beyond its values, and a plainer form may not have it.
    form, plain = cron(case.form), cron(case.plain)
    assert form == plain._replace(follows_clock=form.follows_clock)


@pytest.mark.parametrize("case", DIFFERENT, ids=lambda case: case.form)
def test_means_something_different_from_a_similar_form(case: Same) -> None:
    assert cron(case.form).day_masks != cron(case.plain).day_masks


@pytest.mark.parametrize("case", REJECTED, ids=lambda case: ascii(case.form))
def test_invalid_forms_are_rejected_with_a_message_and_a_hint(case: Rejected) -> None:
    with pytest.raises(CronError) as caught:
        parse(case.form)
    assert caught.value.message == case.message
    assert caught.value.hint == case.hint
    assert str(caught.value) == case.message
    assert isinstance(caught.value, TenantcronError)


@pytest.mark.parametrize(
    ("value", "kind"), [(5, "int"), (None, "NoneType"), ([], "list"), (b"@daily", "bytes")]
)
def test_a_value_that_is_not_text_is_rejected(value: object, kind: str) -> None:
    with pytest.raises(CronError, match=f"a timetable is text, this is {kind}"):
        parse(value)  # type: ignore[arg-type] # what a manifest may hold


@pytest.mark.parametrize(
    ("invalid", "suggested", "values"),
    [
        ("0 22-6/2 * * *", "0 22,0,2,4,6 * * *", (0, 2, 4, 6, 22)),
        ("0 23-0 * * *", "0 23,0 * * *", (0, 23)),
        ("0 22-6 * * *", "0 22-23,0-6 * * *", (0, 1, 2, 3, 4, 5, 6, 22, 23)),
    ],
)
def test_the_hint_for_a_backward_range_is_valid(
    invalid: str, suggested: str, values: tuple[int, ...]
) -> None:
    with pytest.raises(CronError) as caught:
        parse(invalid)
    assert caught.value.hint == f"write {suggested.split()[1]}"
    assert cron(suggested).hours == values


def test_an_expression_of_256_characters_is_accepted() -> None:
    text = "0 0 * * *" + " " * 247
    assert cron(text).hours == (0,)


@pytest.mark.parametrize(
    ("text", "follows_clock"),
    [
        ("0 * * * *", True),
        ("0 */2 * * *", True),
        ("0 *,5 * * *", True),
        ("@hourly", True),
        ("0 0-23 * * *", False),
        ("0 5,* * * *", False),
        ("* 5 * * *", False),
        ("@daily", False),
    ],
)
def test_an_hour_field_that_begins_with_a_star_follows_the_clock(
    text: str, follows_clock: bool
) -> None:
    assert cron(text).follows_clock is follows_clock


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("  0\t0  1 *   * ", "0 0 1 * *"),
        ("0 0 * Jan MON-fri", "0 0 * Jan MON-fri"),
        ("@Daily", "@daily"),
        (" @HOURLY ", "@hourly"),
        ("@EVERY  45m", "@every 45m"),
        (" @at   2026-12-01T10:00:00+01:00 ", "@at 2026-12-01T10:00:00+01:00"),
    ],
)
def test_the_expression_keeps_its_text_with_single_spaces_and_lower_case_macros(
    text: str, expression: str
) -> None:
    assert parse(text).expression == expression


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("@every 1s", timedelta(seconds=1)),
        ("@every 45m", timedelta(minutes=45)),
        ("@every 1h30m", timedelta(minutes=90)),
    ],
)
def test_an_interval_is_a_duration(text: str, interval: timedelta) -> None:
    assert parse(text) == IntervalTimetable(text, interval)


@pytest.mark.parametrize(
    "text",
    [
        "@at 2026-12-01T09:00:00Z",
        "@at 2026-12-01T09:00Z",
        "@at 2026-12-01T09:00:00.000Z",
        "@at 2026-12-01T10:00:00+01:00",
        "@at 2026-11-30T23:30:00-09:30",
    ],
)
def test_a_single_time_is_an_instant_in_utc(text: str) -> None:
    timetable = parse(text)
    assert timetable == SingleTimetable(text, datetime(2026, 12, 1, 9, tzinfo=UTC))
    assert isinstance(timetable, SingleTimetable)
    assert timetable.instant.tzinfo is UTC


def test_the_same_text_is_read_once() -> None:
    assert parse("17 3 * * 2") is parse("17 3 * * 2")
