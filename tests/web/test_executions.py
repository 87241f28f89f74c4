"""The page of an execution."""

import httpx
from support.dashboard import RUNNING
from support.fleet import query
from support.serving import Api, new_token


async def test_the_page_and_the_api_show_how_often_a_worker_was_lost(
    api: Api, database_url: str
) -> None:
    query(
        database_url,
        f"UPDATE tenantcron.execution SET losses = 4, suspicion = 2 WHERE id = '{RUNNING}'",  # noqa: S608 -- an id from above
    )
    token = await new_token(api.database, "viewer")
    headers = {
        "Cookie": f"tenantcron_session={token}",
        "Authorization": f"Bearer {token}",
    }
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        page = (await client.get(f"/ui/executions/{RUNNING}")).text
        answer = (await client.get(f"/v1/executions/{RUNNING}")).json()

    assert "<dt>Losses</dt><dd>4 <small>lost with its worker; a suspect" in page
    assert (answer["losses"], answer["suspect"]) == (4, True)
