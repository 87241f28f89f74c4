"""A user with a token of a tenant learns nothing about others, not even that they exist."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from uuid import UUID

import httpx
from support.dashboard import DEAD, OF_OTHERS
from support.fleet import NIGHTLY, query
from support.patience import PATIENCE
from support.serving import Api, apply, new_token

# As long as the real names, so that not even the length of a response differs.
OTHERS, MISSING = "globex", "vacant"
UNKNOWN = UUID("bbbb0000-0000-4000-8000-00000000ffff")
THEIR_SCHEDULE = "settle_with_initech"
PART = {"HX-Request": "true"}
READ = (
    "/ui/tenants/{tenant}",
    "/ui/tenants?from={tenant}",
    "/ui/tenants?find={tenant}",
    "/ui/schedules?from={tenant}/nightly",
    "/ui/tenants/{tenant}/difference?from=1&to=1",
    "/ui/tenants/{tenant}/difference?from=1&to=99",
    "/ui/tenants/{tenant}/schedules/nightly",
    "/ui/tenants/{tenant}/schedules/nothing",
    "/ui/executions/{execution}",
)
CLICKED = (
    "/ui/tenants/{tenant}/schedules/nightly/pause",
    "/ui/tenants/{tenant}/schedules/nightly/resume",
    "/ui/tenants/{tenant}/schedules/nightly/trigger",
    "/ui/executions/{execution}/retry",
    "/ui/executions/{execution}/cancel",
)
_THEIRS = (
    "SELECT paused_at::text AS it FROM tenantcron.schedule_cursor WHERE tenant_id = 'globex'"
    " UNION ALL SELECT id || state FROM tenantcron.execution WHERE tenant_id = 'globex'"
)
OF_THE_REQUEST = ("date", "x-correlation-id", "x-request-id")


@asynccontextmanager
async def looking(api: Api, tenant: str | None) -> AsyncIterator[httpx.AsyncClient]:
    """Sign in with a token that is restricted to a tenant."""
    async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
        csrf = _csrf(await client.get("/ui/sign-in"))
        token = await new_token(api.database, "operator", tenant)
        done = await client.post("/ui/sign-in", data={"csrf": csrf, "token": token})
        assert done.status_code == 303
        yield client


def _csrf(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1]


def _of(path: str, tenant: str, execution: UUID) -> str:
    return path.format(tenant=tenant, execution=execution)


def _response(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    """Return the content of a response, with one tenant's names replaced by the other's."""
    headers = {key: value for key, value in answer.headers.items() if key not in OF_THE_REQUEST}
    text = answer.text.replace(OTHERS, MISSING).replace(str(OF_OTHERS), str(UNKNOWN))
    where = {key: value.replace(OTHERS, MISSING) for key, value in headers.items()}
    return answer.status_code, where, text


async def test_pages_of_other_tenants_look_like_missing_ones(api: Api) -> None:
    async with looking(api, "acme") as client:
        for path, headers in product(READ, ({}, PART, {"If-None-Match": "*"})):
            theirs = await client.get(_of(path, OTHERS, OF_OTHERS), headers=headers)
            nothing = await client.get(_of(path, MISSING, UNKNOWN), headers=headers)
            assert _response(theirs) == _response(nothing)
            assert "etag" not in theirs.headers
            assert theirs.status_code == (
                200 if path.startswith(("/ui/tenants?", "/ui/schedules?")) else 404
            )


async def test_an_action_on_another_tenant_has_no_effect_and_reveals_nothing(
    api: Api, database_url: str
) -> None:
    before = query(database_url, _THEIRS)
    async with looking(api, "acme") as client:
        form = {"csrf": _csrf(await client.get("/ui")), "reason": "curious", "span": ""}
        for path in CLICKED:
            theirs = await client.post(_of(path, OTHERS, OF_OTHERS), data=form)
            nothing = await client.post(_of(path, MISSING, UNKNOWN), data=form)
            assert _response(theirs) == _response(nothing)
            assert theirs.status_code == 404
    assert query(database_url, _THEIRS) == before


async def test_no_page_of_a_tenant_shows_or_counts_anything_of_others(
    api: Api, database_url: str
) -> None:
    await apply(
        api, OTHERS, {THEIR_SCHEDULE: 'cron: "*/15 * * * *"', "nightly": 'cron: "0 2 * * *"'}
    )
    query(
        database_url,
        "UPDATE tenantcron.tenant SET status = 'suspended', status_reason = 'unpaid initech'"
        " WHERE id = 'globex'",
    )
    paths = (
        *("/ui", "/ui/tenants", "/ui/tenants/acme", "/ui/tenants/acme/schedules/nightly"),
        *("/ui/tenants/acme/difference?from=1&to=2", f"/ui/executions/{DEAD}"),
    )
    async with looking(api, "acme") as client, looking(api, None) as unrestricted:
        own = [await client.get(path, headers=kind) for path in paths for kind in ({}, PART)]
        all_of_them = [await unrestricted.get(path) for path in ("/ui", "/ui/tenants")]
    assert [
        response.status_code for response in own if response.request.url.path != "/ui/tenants"
    ] == [200] * 10
    for response in own:
        for word in (OTHERS, THEIR_SCHEDULE, "initech", str(OF_OTHERS), str(OF_OTHERS)[:8]):
            assert word not in response.text, response.request.url
    # The same pages show them to viewers with access, so the search terms are correct.
    assert all(OTHERS in response.text for response in all_of_them)
    assert "2 executions failed" in all_of_them[0].text
    assert "1 execution failed" in own[0].text
    assert "25 executions of 2 schedules" in own[0].text


async def test_without_row_level_security_a_tenant_is_redirected_to_its_page(
    api: Api,
) -> None:
    """The overview counts all visible rows, so the code alone would not isolate tenants."""
    object.__setattr__(api.service, "row_level_security", False)
    await apply(api, OTHERS, {THEIR_SCHEDULE: 'cron: "*/15 * * * *"', "nightly": NIGHTLY})
    paths = ("/ui/tenants", "/ui/tenants/acme", "/ui/tenants/acme/schedules/nightly")
    async with looking(api, "acme") as client, looking(api, None) as unrestricted:
        overview = await client.get("/ui")
        part = await client.get("/ui", headers=PART)
        own = [await client.get(path) for path in (*paths, f"/ui/executions/{DEAD}")]
        of_all = await unrestricted.get("/ui")
    for answer in (overview, part):
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/tenants/acme")
    for page in (overview, part, *own):
        for word in (OTHERS, THEIR_SCHEDULE, str(OF_OTHERS)[:8]):
            assert word not in page.text, page.request.url
    assert [page.status_code for page in own] == [200] * 4
    assert OTHERS in of_all.text
