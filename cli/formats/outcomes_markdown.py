"""Results of plan and apply as Markdown, for the job summary of a pipeline."""

from collections.abc import Iterator
from datetime import UTC

from tenantcron.cli.formats.outcomes_text import first_execution, why_none
from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import Summary, TenantResultResponse

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

    def text(self, summary: Summary) -> str:
        """Return the page, with the totals first."""
        totals = " · ".join(f"{count} {key}" for key, count in summary.items())
        head = "\n".join([f"### {self._title}", "", totals, ""]) + "\n"
        more = f"… and {self._omitted} more tenants\n" if self._omitted else ""
        return head + "".join(self._parts) + more


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
        fields = f": {_plain(', '.join(change['fields']))}" if change["fields"] else ""
        action = change["action"]
        yield f"- {_SIGNS[action]} {action} {_plain(change['schedule'])}{fields}"
    yield ""
    yield "| schedule | next execution | UTC |"
    yield "|---|---|---|"
    for entry in tenant["schedules"]:
        first = first_execution(entry)
        local = f"{first:%a %Y-%m-%d %H:%M %Z}" if first else _plain(why_none(entry))
        utc = f"{first.astimezone(UTC):%Y-%m-%d %H:%M}" if first else ""
        yield f"| {_plain(entry['name'])} | {local} | {utc} |"
    yield ""


def _plain(text: str) -> str:
    """Escape Markdown and HTML."""
    escaped = visible(text)
    for char in "\\`*_{}[]<>|#":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped
