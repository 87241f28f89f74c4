"""The page of a schedule."""

import re
from pathlib import Path

import httpx
from support.serving import YAML, Api, api_on, apply, new_token

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.schedules.settings import SETTINGS
from tenantcron.store.connection.engine import Database
from tenantcron.web.words import NOTHING

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
    assert "<code>0 2 * * *</code> in Europe/London" in season
    assert "2098-12-01/2098-12-02" not in season
    assert (answer["cron"], answer["starts"], answer["ends"]) == (
        "0 2 * * *",
        "2098-12-01",
        "2098-12-02",
    )
    assert answer["next_executions"] == ["2098-12-01T02:00:00+00:00"]


FULL = """
version: "1.0"
tenant: globex
sagas:
  - name: bill
    target:
      http: {url: "https://billing.example/run", headers: {X-Team: "<b>billing</b>"}}
    trigger:
      scheduled:
        cron: "0 2 * * *"
        starts: 2098-12-01
        overlap: queue
        retry: {max_attempts: 7}
        payload: {region: "<i>north</i>"}
"""


async def test_the_page_shows_all_settings_the_target_and_the_payload(
    database: Database, tmp_path: Path
) -> None:
    policy = '[policy]\nallowed_hosts = ["billing.example"]\n'
    (tmp_path / "tenantcron.toml").write_text(policy, encoding="utf-8")
    async with api_on(database, tmp_path) as api:
        await api.tenants("globex")
        async with await api.client("admin") as client:
            path = "/v1/tenants/globex/manifest:apply"
            applied = await client.post(path, content=FULL, headers=YAML)
            assert applied.status_code == 200, applied.text
            cookie = client.headers["Authorization"].removeprefix("Bearer ")
            headers = {"Cookie": f"tenantcron_session={cookie}"}
            page = (await client.get("/ui/tenants/globex/schedules/bill", headers=headers)).text

    shown = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page.replace("<wbr>", "")))
    bounds = {"starts": "2098-12-01", "ends": NOTHING}
    chosen = {"overlap": "queue", "retry.max_attempts": "7", "retry.backoff": "1s"}
    assert shown.items() >= (bounds | chosen).items()
    assert {name.partition(".")[0] for name in shown} == SETTINGS.keys() - {"payload"}
    assert "https://billing.example/run" in page
    assert "&lt;b&gt;billing" in page
    assert "&lt;i&gt;north" in page
