"""Tenants and schedules are found by a part of their name."""

import re

import httpx
from support.serving import Api, apply, new_token

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider

_DAILY = 'cron: "0 2 * * *"'


async def _links(api: Api, path: str, pattern: str, tenant: str | None = None) -> list[str]:
    token = await new_token(api.database, "viewer", tenant)
    headers = {"Cookie": f"tenantcron_session={token}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        page = await client.get(path)
    assert page.status_code == 200
    return re.findall(rf'<a href="{pattern}"', page.text)


async def test_tenants_are_found_by_a_part_of_their_id(api: Api) -> None:
    await api.tenants("north_east", "north_west", "northeast")
    tenant = "/ui/tenants/([a-z_]+)"

    assert await _links(api, "/ui/tenants?find=+EAST", tenant) == ["north_east", "northeast"]
    # No wildcard: an underscore is a character.
    assert await _links(api, "/ui/tenants?find=h_", tenant) == ["north_east", "north_west"]
    assert await _links(api, "/ui/tenants?find=east&from=north_west", tenant) == ["northeast"]
    assert await _links(api, "/ui/tenants?find=%00", tenant) == []
    assert await _links(api, "/ui/tenants?find=o", tenant, "acme") == []


async def test_schedules_of_a_tenant_are_found_by_a_part_of_their_name(api: Api) -> None:
    names = ("bill_north", "bill_south", "report")
    await apply(api, "globex", dict.fromkeys(names, _DAILY))
    schedule = "/ui/tenants/globex/schedules/([a-z_]+)"

    found = await _links(api, "/ui/tenants/globex?find=bill", schedule)
    assert found == ["bill_north", "bill_south"]
    assert await _links(api, "/ui/tenants/globex?find=%25", schedule) == []


async def test_schedules_of_all_tenants_are_found_by_a_part_of_their_name(api: Api) -> None:
    await apply(api, "globex", dict.fromkeys(("bill_north", "bill_south", "nightly"), _DAILY))
    await refresh(api.database, TenantScheduleProvider())
    schedule = "/ui/tenants/([a-z]+/schedules/[a-z_]+)"
    bills = ["globex/schedules/bill_north", "globex/schedules/bill_south"]
    nightly = ["acme/schedules/nightly", "globex/schedules/nightly"]

    assert await _links(api, "/ui/schedules?find=BILL", schedule) == bills
    assert await _links(api, "/ui/schedules?find=night", schedule) == nightly
    assert await _links(api, "/ui/schedules?find=l&from=globex/bill_north", schedule) == [
        *(bills[1], nightly[1])
    ]
    assert await _links(api, "/ui/schedules?find=night", schedule, "acme") == nightly[:1]
