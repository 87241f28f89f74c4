"""The numbers of the pages agree, also before a scheduler has picked up the schedules."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from support.fleet import query
from support.serving import Api, api_on, apply, new_token

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.engine import Database

_HOURLY = 'cron: "0 * * * *"'
_SCHEDULES = {"first": _HOURLY, "second": _HOURLY, "third": f"{_HOURLY}, enabled: false"}


@asynccontextmanager
async def viewing(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Cookie": f"tenantcron_session={await new_token(api.database, 'viewer')}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        yield client


async def _numbers(client: httpx.AsyncClient) -> tuple[tuple[str, str], list[str], list[str]]:
    """Return the schedules by the overview, by the list of tenants, and by the tenant."""
    overview, tenants, tenant = [
        (await client.get(path)).text for path in ("/ui", "/ui/tenants", "/ui/tenants/acme")
    ]
    return (
        re.findall(r"<dt>Schedules</dt>\s*<dd>(\d+)<small>(.*?)</small>", overview)[0],
        re.findall(r'data-label="Schedules" class="number">(\d+)<', tenants),
        re.findall(r'aria-labelledby="use-Schedules">(\d+) of', tenant),
    )


async def test_all_pages_count_schedules_that_no_scheduler_has_picked_up(
    database: Database, tmp_path: Path
) -> None:
    async with api_on(database, tmp_path) as api:
        await api.tenants("acme", "globex")
        await apply(api, "acme", _SCHEDULES)
        await apply(api, "globex", {"only": _HOURLY})
        async with viewing(api) as client:
            before = await _numbers(client)
            ahead = (await client.get("/ui")).text
            await refresh(database, TenantScheduleProvider())
            after = await _numbers(client)
            await apply(api, "acme", {"first": _HOURLY, "third": _SCHEDULES["third"]})
            changed = await _numbers(client)

    assert before == (("4", "0 paused, 1 disabled"), ["3", "1"], ["3"])
    assert after == before
    assert changed == (("3", "0 paused, 1 disabled"), ["2", "1"], ["2"])
    assert "No scheduler has picked up the changes of 2 tenants yet" in ahead
    assert "Nothing is due" not in ahead


async def test_the_load_does_not_include_suspended_tenants(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    async with api_on(database, tmp_path) as api:
        await api.tenants("acme", "globex")
        for tenant in ("acme", "globex"):
            await apply(api, tenant, {"hourly": _HOURLY})
        await refresh(database, TenantScheduleProvider())
        query(database_url, "UPDATE tenantcron.tenant SET status = 'suspended' WHERE id = 'acme'")
        async with viewing(api) as client:
            overview = " ".join((await client.get("/ui")).text.split())

    assert "24 executions of 1 schedule are due" in overview
