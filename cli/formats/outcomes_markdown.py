"""Outcomes of plan and apply as Markdown, for the summary page of a pipeline."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tenantcron.cli.formats.outcomes import summary
from tenantcron.cli.formats.outcomes_text import why_none, worth_reading
from tenantcron.cli.terminal import visible
from tenantcron.reconciler.outcome import Outcome, registered

# GitHub takes a mebibyte and nothing of a page that is longer; a character may take four bytes.
_LONGEST_PAGE = 250_000
_SIGNS = {"create": "`+`", "update": "`~`", "delete": "`-`"}


def markdown(title: str, outcomes: Sequence[Outcome], now: datetime) -> str:
    """Return the summary page."""
    totals = summary(outcomes)
    lines = [f"### {title}", "", " · ".join(f"{count} {key}" for key, count in totals.items()), ""]
    page = "\n".join(lines) + "\n"
    shown = worth_reading(outcomes)
    for number, outcome in enumerate(shown):
        part = "\n".join(_tenant(outcome, now)) + "\n"
        if len(page) + len(part) > _LONGEST_PAGE:
            return f"{page}… and {len(shown) - number} more tenants\n"
        page += part
    return page


def _tenant(outcome: Outcome, now: datetime) -> Iterator[str]:
    yield f"#### {_plain(outcome.tenant or str(outcome.file))}: {outcome.status}"
    yield ""
    if outcome.refusal:
        yield f"> **{outcome.refusal.code}** {_plain(outcome.refusal.message)}"
        yield ""
    for one in outcome.diagnostics:
        place = f"{_plain(one.file)}:{one.problem.span.line}"
        yield f"- **{one.problem.code}** {place} {_plain(one.problem.message)}"
    if outcome.plan is None:
        return
    for change in outcome.plan.difference.changes:
        fields = f": {_plain(', '.join(change.fields))}" if change.fields else ""
        yield f"- {_SIGNS[change.action]} {change.action} {_plain(change.schedule)}{fields}"
    yield ""
    yield "| schedule | next execution | UTC |"
    yield "|---|---|---|"
    for entry in registered(outcome.plan, now):
        first = entry.next_executions[0] if entry.next_executions else None
        local = f"{first:%a %Y-%m-%d %H:%M %Z}" if first else _plain(why_none(entry))
        utc = f"{first.astimezone(UTC):%Y-%m-%d %H:%M}" if first else ""
        yield f"| {_plain(entry.definition.schedule_name)} | {local} | {utc} |"
    yield ""


def _plain(text: str) -> str:
    """Keep words from being read as Markdown or HTML."""
    escaped = visible(text)
    for char in "\\`*_{}[]<>|#":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped
