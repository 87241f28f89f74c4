"""Results of plan and apply as Markdown, for the job summary of a pipeline."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from tenantcron.cli.formats.change_words import changed_fields
from tenantcron.cli.formats.outcomes_text import first_execution, why_none
from tenantcron.cli.formats.policies_text import policy_lines
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.shapes import (
    ChangeResponse,
    PolicyResponse,
    Summary,
    TenantResultResponse,
)

# GitHub drops a summary of more than 1 MiB. A character can take four bytes.
_LONGEST_PAGE = 250_000
_SIGNS = {"create": "`+`", "update": "`~`", "delete": "`-`"}


class SummaryPage:
    """The job summary: tenants are added one by one, up to the size that GitHub accepts."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._length = 0
        self._omitted = 0

    def add(self, tenant: TenantResultResponse) -> None:
        """Add a tenant if the page has room."""
        part = "\n".join(_tenant(tenant)) + "\n"
        if self._omitted or self._length + len(part) > _LONGEST_PAGE:
            self._omitted += 1
            return
        self._parts.append(part)
        self._length += len(part)

    def text(self, summary: Summary, policies: Sequence[PolicyResponse]) -> str:
        """Return the page, with the totals and the policies first."""
        totals = " · ".join(_total(key, count) for key, count in summary.items())
        checked = [line for policy in policy_lines(policies) for line in (_plain(policy), "")]
        head = "\n".join([f"### {self._title}", "", totals, "", *checked]) + "\n"
        more = f"… and {number_of(self._omitted, 'more tenant')}\n" if self._omitted else ""
        return head + "".join(self._parts) + more


def _total(key: str, count: object) -> str:
    return (
        number_of(count, "tenant")
        if key == "tenants" and isinstance(count, int)
        else f"{count} {key}"
    )


def _tenant(tenant: TenantResultResponse) -> Iterator[str]:
    yield f"#### {_plain(tenant['tenant'] or str(tenant['file']))}: {tenant['status']}"
    yield ""
    if refusal := tenant.get("error"):
        yield f"> **{refusal['code']}** {_plain(refusal['message'])}"
        yield ""
    for diagnostic in tenant["diagnostics"]:
        place = f"{_plain(diagnostic['file'])}:{diagnostic['line']}"
        yield f"- **{diagnostic['code']}** {place} {_plain(diagnostic['message'])}"
    if tenant["status"] == "failed":
        return
    for change in tenant["changes"]:
        action = change["action"]
        yield f"- {_SIGNS[action]} {action} {_plain(change['schedule'])}{_timetable(change)}"
        yield from (f"  - {_plain(str(field))}" for field in changed_fields(change))
    yield ""
    yield "| schedule | next execution | UTC |"
    yield "|---|---|---|"
    for entry in tenant["schedules"]:
        first = first_execution(entry)
        local = f"{first:%a %Y-%m-%d %H:%M %Z}" if first else _plain(why_none(entry))
        utc = f"{first.astimezone(UTC):%Y-%m-%d %H:%M}" if first else ""
        yield f"| {_plain(entry['name'])} | {local} | {utc} |"
    yield ""


def _timetable(change: ChangeResponse) -> str:
    """Return the timetable of a schedule that is created or deleted."""
    definition = change["after"] or change["before"]
    if change["action"] == "update" or definition is None:
        return ""
    text = f"{definition['cron_expr']} in {definition['timezone']}, saga {definition['saga_name']}"
    return f": {_plain(text)}"


def _plain(text: str) -> str:
    """Escape Markdown and HTML."""
    escaped = visible(text)
    for char in "\\`*_{}[]<>|#":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped
