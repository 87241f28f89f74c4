"""Findings on the overview link to the pages that need attention."""

import re

import httpx
from support.fleet import query
from support.serving import Api, new_token

_CURSORS = "UPDATE tenantcron.schedule_cursor SET"
_PAUSED = "paused_at = now(), paused_by = 'x', paused_reason = 'auto:consecutive_failures'"
_TROUBLE = (
    f"{_CURSORS} next_run_at = now() - interval '10 minutes' WHERE tenant_id = 'globex'",
    f"{_CURSORS} fault = 'of a later version' WHERE schedule_name = 'hourly'",
    f"{_CURSORS} {_PAUSED} WHERE tenant_id = 'acme' AND schedule_name = 'nightly'",
    "UPDATE tenantcron.tenant SET sync_fault = 'its schema is gone' WHERE id = 'globex'",
)
# The text of the finding, and the page that it links to.
_TOLD = {
    "overdue, the first by": "/ui/tenants/globex/schedules/nightly",
    "cannot be evaluated": "/ui/tenants/acme/schedules/hourly",
    "auto-paused after repeated failures": "/ui/tenants/acme/schedules/nightly",
    "cannot be synced completely": "/ui/tenants/globex",
}


async def test_findings_link_to_overdue_schedules_and_skipped_tenants(
    api: Api, database_url: str
) -> None:
    for statement in _TROUBLE:
        query(database_url, statement)
    headers = {"Cookie": f"tenantcron_session={await new_token(api.database, 'viewer')}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        overview = (await client.get("/ui")).text
        findings = re.findall(r'<li class="(?:error|warning)">.*?</li>', overview, re.DOTALL)
        for words, page in _TOLD.items():
            (found,) = [finding for finding in findings if words in finding]
            assert f'<a href="{page}">' in found, words
            assert (await client.get(page)).status_code == 200
        tenant = (await client.get("/ui/tenants/acme")).text
    assert "repeated failures (x)" in tenant
