"""Totals of plan and apply. Imports no database driver, because `--server` uses it, too."""

from collections.abc import Iterable

from tenantcron.service.responses.shapes import Summary


def total(summaries: Iterable[Summary]) -> Summary:
    """Sum the summaries of tenants."""
    totals: Summary = {
        "tenants": 0,
        "create": 0,
        "update": 0,
        "delete": 0,
        "unchanged": 0,
        "failed": 0,
    }
    for summary in summaries:
        totals = {
            "tenants": totals["tenants"] + summary["tenants"],
            "create": totals["create"] + summary["create"],
            "update": totals["update"] + summary["update"],
            "delete": totals["delete"] + summary["delete"],
            "unchanged": totals["unchanged"] + summary["unchanged"],
            "failed": totals["failed"] + summary["failed"],
        }
    return totals
