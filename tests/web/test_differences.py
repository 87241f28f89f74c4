"""Differences between two versions of a schedule, formatted as in manifests."""

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.diff import diff
from tenantcron.reconciler.document import definitions
from tenantcron.web.differences import FieldDifference, differences


def schedule(*, enabled: bool, timezone: str, **definition: JsonValue) -> JsonObject:
    columns: JsonObject = {
        "schedule_name": "nightly",
        "saga_name": "reconcile",
        "cron_expr": "0 2 * * *",
        "timezone": timezone,
        "enabled": enabled,
        "definition": definition,
    }
    return {"schedules": [columns]}


def test_differences_are_shown_by_value_as_in_a_manifest() -> None:
    old = schedule(
        enabled=True,
        timezone="Europe/London",
        description="",
        payload={"report": "monthly", "parts": [1, 2]},
        retry={"max_attempts": 3, "backoff": "1s"},
    )
    new = schedule(
        enabled=False,
        timezone="Europe/Berlin",
        description="Invoices",
        payload={"report": "monthly", "parts": [1, 2, 3], "note": None, "to": "Zoë"},
        retry={"max_attempts": 5, "backoff": "1s"},
    )
    (change,) = diff(definitions(new), definitions(old)).changes

    assert [*differences(change)] == [
        FieldDifference("timezone", "Europe/London", "Europe/Berlin"),
        FieldDifference("enabled", "true", "false"),
        FieldDifference("description", "\N{EN DASH}", "Invoices"),
        FieldDifference("payload.note", "\N{EN DASH}", "null"),
        FieldDifference("payload.parts", "[1, 2]", "[1, 2, 3]"),
        FieldDifference("payload.to", "\N{EN DASH}", "Zoë"),
        FieldDifference("retry.max_attempts", "3", "5"),
    ]
