"""Parsing and formatting of durations."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantcron.core.durations import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5_400),
        ("7d", 604_800),
        ("1d2h3m4s", 93_784),
        ("007m", 420),
        ("1d1s", 86_401),
        ("9999d999999h", 9999 * 86_400 + 999_999 * 3_600),
        ("9999999m999999999s", 9_999_999 * 60 + 999_999_999),
    ],
)
def test_units_add_up(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "s", "15", "15 m", " 15m", "15m ", "15m\n", "-15m", "+15m", "1.5h", "1m1h", "1h1h",
        "15M", "15min", "1w", "PT15M", "\u0661\u0665m", "10000d", "1000000h", "1_0m", "1e3s",
    ],
)  # fmt: skip
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(DurationError, match="is not a duration such as"):
        parse_duration(text)


@given(st.integers(0, 9999 * 86_400))
def test_a_formatted_duration_parses_to_the_same_duration(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (60, "1m"), (90, "1m30s"), (3_600, "1h"), (86_400, "1d"), (90_061, "1d1h1m1s")],
)
def test_durations_are_formatted_in_the_shortest_form(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.from_regex(r"\A([0-9]{1,3}d)?([0-9]{1,3}h)?([0-9]{1,3}m)?([0-9]{1,3}s)\Z"))
def test_formatting_is_idempotent(text: str) -> None:
    formatted = format_duration(parse_duration(text))
    assert format_duration(parse_duration(formatted)) == formatted
