"""The page of a tenant's tasks."""

import httpx
from support.fleet import query
from support.serving import Api, new_token

WAITING = "SELECT tenantcron.submit_task('acme', 'send_invoice', delay => interval '1 day')"
DUE = "SELECT tenantcron.submit_task('acme', 'export')"
TASKS = "/ui/tenants/acme/tasks"


async def test_the_page_lists_tasks_and_links_to_their_executions(
    api: Api, database_url: str
) -> None:
    for statement in (WAITING, DUE):
        query(database_url, statement)
    headers = {"Cookie": f"tenantcron_session={await new_token(api.database, 'viewer')}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        page = (await client.get(TASKS)).text
        waiting = (await client.get(f"{TASKS}?state=WAITING")).text
        (due,) = query(database_url, "SELECT id FROM tenantcron.task WHERE fired_at IS NOT NULL")
        execution = (await client.get(f"/ui/executions/{due['id']}")).text

    assert ("send_" in page, "export" in page) == (True, True)
    assert f'href="/ui/executions/{due["id"]}"' in page
    assert ("send_" in waiting, "export" in waiting) == (True, False)
    assert f'<a href="{TASKS}">tasks</a>' in execution


async def test_tasks_of_another_tenant_are_not_found(api: Api) -> None:
    await api.tenants("initech")
    token = await new_token(api.database, "viewer", "initech")
    headers = {"Cookie": f"tenantcron_session={token}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client:
        assert (await client.get(TASKS)).status_code == 404
