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


async def test_the_page_and_the_api_show_the_progress_of_a_remote_worker(
    api: Api, database_url: str
) -> None:
    query(
        database_url,
        "UPDATE tenantcron.execution SET handed_over_attempt = attempt, handed_over_at = now(),"  # noqa: S608 -- an id from above
        f" progress = 40, progress_text = 'page 2 of 5' WHERE id = '{RUNNING}'",
    )
    token = await new_token(api.database, "viewer")
    headers = {"Cookie": f"tenantcron_session={token}", "Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        page = (await client.get(f"/ui/executions/{RUNNING}")).text
        answer = (await client.get(f"/v1/executions/{RUNNING}")).json()

    assert 'max="100" value="40"' in page
    assert "page 2 of 5" in page
    assert (answer["progress"], answer["progress_text"]) == (40, "page 2 of 5")
    assert answer["handed_over_at"] is not None
    assert answer["heartbeat_at"] is None


async def test_the_page_shows_what_the_running_attempt_has_logged(
    api: Api, database_url: str
) -> None:
    query(
        database_url,
        "INSERT INTO tenantcron.live_log"  # noqa: S608 -- an id from above
        " SELECT id, attempt, 90, tenant_id, 'info <reading>' || chr(10)"
        f" FROM tenantcron.execution WHERE id = '{RUNNING}'",
    )
    headers = {"Cookie": f"tenantcron_session={await new_token(api.database, 'viewer')}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        page = (await client.get(f"/ui/executions/{RUNNING}")).text

    assert "<h3>Log so far</h3>" in page
    assert "…\ninfo &lt;reading&gt;\n</pre>" in page
    assert "The first attempt is running." not in page


async def test_a_confirmation_disappears_when_the_execution_has_moved_on(
    api: Api, database_url: str
) -> None:
    headers = {"Cookie": f"tenantcron_session={await new_token(api.database, 'viewer')}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:

        async def look(state: str, **headers: str) -> str:
            query(database_url, f"UPDATE tenantcron.execution SET state = '{state}'")  # noqa: S608 -- a state from below
            page = await client.get(f"/ui/executions/{RUNNING}?did=retry", headers=headers)
            return page.text

        queued, running = await look("PENDING"), await look("RUNNING")
        still_queued = await look("PENDING", **{"HX-Request": "true"})
        dead = await look("DEAD", **{"HX-Request": "true"})

    assert "Queued for retry" in queued
    assert f'hx-get="/ui/executions/{RUNNING}?did=retry"' in queued
    assert "Queued for retry" not in running
    cleared = '<div id="did" hx-swap-oob="innerHTML"></div>'
    assert (cleared in still_queued, cleared in dead) == (False, True)
