"""Sessions: sign-in, cookies and protection against cross-site requests."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

import httpx
from support.dashboard import DEAD
from support.fleet import query
from support.pages import ROOT
from support.patience import PATIENCE
from support.serving import Api, api_on, new_token

from tenantcron.store.connection.engine import Database
from tenantcron.web.rendering import asset

NIGHTLY = "/ui/tenants/acme/schedules/nightly"
ELSEWHERE = ("https://evil.example/", "//evil.example", "/v1/tenants", "/uievil", "/ui/\r\nX: y")


def csrf_of(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1]


@asynccontextmanager
async def signed_in(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
        form = {"csrf": csrf_of(await client.get("/ui/sign-in")), "next": NIGHTLY}
        token = await new_token(api.database, "operator")
        done = await client.post("/ui/sign-in", data={**form, "token": token})
        assert (done.status_code, done.headers["location"]) == (303, NIGHTLY)
        yield client


def paused(url: str) -> list[object]:
    statement = "SELECT paused_reason FROM tenantcron.schedule_cursor WHERE paused_at IS NOT NULL"
    return [row["paused_reason"] for row in query(url, statement)]


async def test_an_unauthenticated_user_signs_in_and_returns_to_the_page(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
        got = await client.get(NIGHTLY)
        part = await client.get(NIGHTLY, headers={"HX-Request": "true"})
    assert got.status_code == 303
    assert got.headers["location"] == f"/ui/sign-in?next={NIGHTLY}"
    assert part.status_code == 401


async def test_signing_in_keeps_the_query_of_the_requested_page(api: Api) -> None:
    wanted = "/ui/tenants/acme/difference?from=1&to=2"
    token = await new_token(api.database, "viewer")
    async with httpx.AsyncClient(base_url=api.url) as client:
        asked = await client.get(wanted, follow_redirects=True)
        where = re.search(r'name="next" value="([^"]+)"', asked.text)
        assert where is not None
        form = {"csrf": csrf_of(asked), "next": unescape(where[1]), "token": token}
        done = await client.post("/ui/sign-in", data=form)
    assert (done.status_code, done.headers["location"]) == (303, wanted)


async def test_the_session_is_a_cookie_that_scripts_and_other_sites_cannot_use(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
        page = await client.get("/ui/sign-in")
        token = await new_token(api.database, "viewer")
        form = {"csrf": csrf_of(page), "token": token}
        far = await client.post("/ui/sign-in", data=form, headers={"Host": "cron.example"})
        near = await client.post("/ui/sign-in", data=form)
    session = near.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=lax", "Path=/ui"):
        assert part in session
    assert "Secure" not in session
    # Anywhere but on this machine a browser sends it over TLS only.
    assert "Secure" in far.headers["set-cookie"]


async def test_the_cookie_has_the_documented_attributes(api: Api) -> None:
    decision = (ROOT / "docs/decisions/0018-server-rendered-dashboard.md").read_text()
    stated = re.search(r"cookie \(`(HttpOnly)`, `(SameSite=\w+)`", decision)
    assert stated is not None
    async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
        cookie = (await client.get("/ui/sign-in")).headers["set-cookie"]
    assert {attribute.lower() for attribute in stated.groups()} < set(cookie.lower().split("; "))


async def test_signing_in_redirects_to_pages_of_the_dashboard_only(api: Api) -> None:
    token = await new_token(api.database, "viewer")
    for where in ELSEWHERE:
        async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
            form = {"csrf": csrf_of(await client.get("/ui/sign-in")), "next": where}
            done = await client.post("/ui/sign-in", data={**form, "token": token})
        assert (done.status_code, done.headers["location"]) == (303, "/ui")


async def test_a_revoked_token_is_signed_out_at_once(api: Api, database_url: str) -> None:
    async with signed_in(api) as client:
        assert (await client.get("/ui")).status_code == 200
        query(database_url, "UPDATE tenantcron.api_token SET revoked_at = now()")
        gone = await client.get("/ui")
    assert gone.status_code == 303
    assert "tenantcron_session=" in gone.headers["set-cookie"]


async def test_an_action_is_accepted_only_from_a_page_of_the_dashboard(
    api: Api, database_url: str
) -> None:
    async with signed_in(api) as client, signed_in(api) as other:
        form = {"csrf": csrf_of(await client.get(NIGHTLY)), "reason": "storm", "span": ""}
        foreign = csrf_of(await other.get(NIGHTLY))
        refused = [
            await client.post(f"{NIGHTLY}/pause", data={"reason": "storm", "span": ""}),
            await client.post(f"{NIGHTLY}/pause", data={**form, "csrf": "0" * 64}),
            await client.post(f"{NIGHTLY}/pause", data={**form, "csrf": foreign}),
            await client.post(
                f"{NIGHTLY}/pause", data=form, headers={"Origin": "http://evil.example"}
            ),
            await client.post(
                f"{NIGHTLY}/pause", data=form, headers={"Sec-Fetch-Site": "cross-site"}
            ),
            await client.post(f"{NIGHTLY}/pause", data=form, headers={"Origin": "null"}),
            await client.post(f"{NIGHTLY}/pause", data=form, headers={"Origin": "http://["}),
        ]
        assert [response.status_code for response in refused] == [403] * len(refused)
        assert paused(database_url) == []
        done = await client.post(f"{NIGHTLY}/pause", data=form, headers={"Origin": api.url})
        assert done.status_code == 303
    assert paused(database_url) == ["storm"]


async def test_an_impossible_action_shows_a_problem_page_and_changes_nothing(
    api: Api, database_url: str
) -> None:
    async with signed_in(api) as client:
        form = {"csrf": csrf_of(await client.get(NIGHTLY)), "span": ""}
        responses = [
            await client.post(f"{NIGHTLY}/pause", data={**form, "reason": "  "}),
            await client.post(f"{NIGHTLY}/pause", data={**form, "reason": "x" * 501}),
            await client.post(f"{NIGHTLY}/pause", data={**form, "reason": "x", "span": "9y"}),
            await client.post(f"{NIGHTLY}/resume", data=form),
            await client.post(f"/ui/executions/{DEAD}/cancel", data=form),
            await client.get("/ui/tenants/unknown"),
            await client.get("/ui/tenants/acme/schedules/nothing"),
            await client.get("/ui/tenants/acme/difference?from=1&to=99"),
            await client.get("/ui/executions/not-an-id"),
            await client.get("/ui/nowhere"),
        ]
    assert [response.status_code for response in responses] == [
        422,
        422,
        422,
        409,
        409,
        404,
        404,
        404,
        404,
        404,
    ]
    assert all(response.headers["content-type"].startswith("text/html") for response in responses)
    assert "Give a reason" in responses[0].text
    # The page links back to the page of the action.
    pages = [*[NIGHTLY] * 4, f"/ui/executions/{DEAD}", *["/ui"] * 5]
    for response, page in zip(responses, pages, strict=True):
        assert f'<p><a href="{page}">' in response.text, response.request.url
    assert paused(database_url) == []


async def test_a_confirmation_is_shown_only_while_it_is_true(api: Api, database_url: str) -> None:
    """The URL names the action, but any user can write or revisit one."""
    dead = f"/ui/executions/{DEAD}"
    async with signed_in(api) as client:
        made_up = [
            await client.get(f"{NIGHTLY}?did=pause"),
            *[await client.get(f"{dead}?did={did}") for did in ("trigger", "retry", "cancel")],
        ]
        form = {"csrf": csrf_of(made_up[0]), "reason": "storm", "span": ""}
        for action, path in (("pause", NIGHTLY), ("resume", NIGHTLY), ("retry", dead)):
            done = await client.post(f"{path}/{action}", data=form)
            shown = await client.get(done.headers["location"])
            assert shown.text.count('class="did"') == 1, action
        late = await client.get(f"{NIGHTLY}?did=pause")
    for answer in (*made_up, late):
        assert answer.status_code == 200
        assert 'class="did"' not in answer.text, answer.request.url
    assert paused(database_url) == []


async def test_no_page_allows_inline_scripts(api: Api) -> None:
    async with signed_in(api) as client:
        paths = ("/ui", "/ui/tenants", "/ui/tenants/acme", NIGHTLY, f"/ui/executions/{DEAD}")
        pages = [await client.get(path) for path in (*paths, "/ui/nowhere", "/ui/sign-in")]
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        assert page.headers["cache-control"] == "no-store"
        assert (
            re.search(r"<script(?! src=\"/ui/static/)|\son\w+=|\sstyle=|//cdn", page.text) is None
        )
        assert set(re.findall(r'(?:src|href)="(https?:)?//', page.text)) == set()


async def test_static_files_are_cacheable_because_their_url_has_a_hash(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
        for name in ("htmx.min.js", "live.js", "style.css", "icon.svg"):
            got = await client.get(asset(name))
            assert (got.status_code, "immutable" in got.headers["cache-control"]) == (200, True)
        assert (await client.get("/ui/static/..%2Fapp.py")).status_code == 404


async def test_on_this_machine_anonymous_callers_need_not_sign_in(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    async with api_on(database, tmp_path, anonymous=True) as api:
        await api.tenants("acme")
        async with httpx.AsyncClient(base_url=api.url, timeout=PATIENCE) as client:
            page = await client.get("/ui")
            foreign = await client.get("/ui", headers={"Host": "evil.example"})
    assert "anonymous" in page.text
    # There are no schedules yet: words, and no empty plots.
    assert "Nothing is due" in page.text
    assert "<svg" not in page.text
    assert foreign.status_code == 303
    assert query(database_url, "SELECT count(*) AS n FROM tenantcron.api_usage")[0]["n"] == 0
