"""The page of a schedule."""

import httpx
from support.serving import Api, apply, new_token

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider

SCHEDULES = {
    "season": 'cron: "0 2 * * *", timezone: Europe/London, starts: 2098-12-01, ends: 2098-12-02',
    "trial": 'cron: "0 2 * * *", ends: 2020-01-01',
}


async def test_the_page_and_the_api_show_the_period_of_a_schedule(api: Api) -> None:
    await apply(api, "globex", SCHEDULES)
    await refresh(api.database, TenantScheduleProvider())
    token = await new_token(api.database, "viewer")
    headers = {
        "Cookie": f"tenantcron_session={token}",
        "Authorization": f"Bearer {token}",
    }
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        season = (await client.get("/ui/tenants/globex/schedules/season")).text
        trial = (await client.get("/ui/tenants/globex/schedules/trial")).text
        answer = (await client.get("/v1/tenants/globex/schedules/season")).json()

    assert "starts on Mon 2098-12-01 00:00 GMT and ends on Tue 2098-12-02 00:00 GMT" in season
    assert "ended on Wed 2020-01-01 00:00 UTC" in trial
    assert answer["cron"] == "0 2 * * * 2098-12-01/2098-12-02"
    assert answer["next_executions"] == ["2098-12-01T02:00:00+00:00"]
