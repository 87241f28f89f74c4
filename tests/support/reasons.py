"""Reasons of executions as users read them."""

from collections.abc import Mapping
from typing import Any

from tenantcron.schedules.execution_reasons import reason_text


def in_words(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its reason in words, if it is of an execution."""
    if "reason_code" not in row:
        return dict(row)
    return {**row, "reason": reason_text(row["reason_code"], row["reason"])}
