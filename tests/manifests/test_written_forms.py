"""A stored timetable in the form of a manifest: exactly what translates back, else nothing."""

import json
from datetime import UTC, datetime

import pytest

from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.language.written_forms import in_form
from tenantcron.manifests.policy import default_policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def stored(timetable: dict[str, object], timezone: str) -> tuple[str, str]:
    """Return how a manifest's timetable is stored, and its form."""
    saga = {"name": "x", "trigger": {"scheduled": {**timetable, "timezone": timezone}}}
    content = json.dumps({"tenant": "x", "sagas": [saga]}).encode()
    checked = check_manifest(content, "json", default_policy(), TenantHints(), NOW)
    assert checked.desired is not None, checked.problems
    timing = checked.desired.schedules[0].timing
    return timing.cron, timing.form


@pytest.mark.parametrize("timezone", ["UTC", "Europe/London", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    ("timetable", "keys"),
    [
        ({"cron": "0 2 1 * *"}, {"": "0 2 1 * *"}),
        ({"every": "15m"}, {"": "15m"}),
        ({"every": "45m"}, {"": "45m"}),
        ({"every": "1h"}, {"": "1h"}),
        ({"every": "6h"}, {"": "6h"}),
        ({"every": "1d"}, {"": "1d"}),
        ({"every": "36h"}, {"": "1d12h"}),
        ({"daily": {"at": "02:05"}}, {"at": "02:05"}),
        ({"weekly": {"on": ["fri", "mon"], "at": "06:30"}}, {"on": "mon, fri", "at": "06:30"}),
        ({"monthly": {"day": 1, "at": "23:00"}}, {"day": "1", "at": "23:00"}),
        ({"monthly": {"day": "last", "at": "00:00"}}, {"day": "last", "at": "00:00"}),
        ({"once": "2027-01-01T09:00:00Z"}, {"": "2027-01-01T09:00:00Z"}),
    ],
    ids=str,
)
def test_a_form_is_written_as_the_manifest_has_it(
    timetable: dict[str, object], keys: dict[str, str], timezone: str
) -> None:
    expression, form = stored(timetable, timezone)

    assert form in timetable
    assert in_form(expression, timezone, form) == keys


@pytest.mark.parametrize(
    ("expression", "form"),
    [
        ("0 2 1 * *", "daily"),
        ("0 2 * * 1", "daily"),
        ("0 2 * * *", "weekly"),
        ("0 2 1 * 1", "weekly"),
        ("0 2 * * 1-5", "weekly"),
        ("0 2 1,15 * *", "monthly"),
        ("0 2 1 6 *", "monthly"),
        ("*/20 9 * * *", "daily"),
        ("*/45 * * * *", "every"),
        ("*/7 * * * *", "every"),
        ("@every nonsense", "every"),
        ("0 2 * * *", "every"),
        ("0 2 * * *", "once"),
        ("0 2 * * *", "unknown"),
    ],
)
def test_a_form_that_cannot_say_the_same_is_not_used(expression: str, form: str) -> None:
    assert in_form(expression, "UTC", form) is None


def test_an_interval_that_a_clock_change_would_shift_is_not_written_as_cron_is() -> None:
    assert in_form("0 */2 * * *", "UTC", "every") == {"": "2h"}
    assert in_form("0 */2 * * *", "Europe/London", "every") is None
