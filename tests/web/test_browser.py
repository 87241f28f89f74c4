"""The dashboard in a real browser: all pages, all actions and their effect in the database."""

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import Theme, complaints, page_of, sign_in
from support.dashboard import DEAD, EVIL, OF_OTHERS, RUNNING
from support.fleet import query
from support.serving import Api, new_token

NIGHTLY = "/ui/tenants/acme/schedules/nightly"


def cursor(url: str) -> dict[str, object]:
    (row,) = query(
        url,
        "SELECT * FROM tenantcron.schedule_cursor"
        " WHERE tenant_id = 'acme' AND schedule_name = 'nightly'",
    )
    return row


def state(url: str, execution: object) -> object:
    rows = query(url, f"SELECT state FROM tenantcron.execution WHERE id = '{execution}'")  # noqa: S608 -- an id of ours
    return rows[0]["state"]


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_all_pages_and_actions_work_for_an_operator(
    api: Api, database_url: str, chromium: Browser, theme: Theme
) -> None:
    token = await new_token(api.database, "operator", name="olga")
    async with page_of(chromium, theme=theme) as page:
        await page.goto(f"{api.url}/")
        await page.get_by_label("API token").fill("tc_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert").first).to_contain_text("token is not valid")
        found = complaints(page)
        await sign_in(page, api.url, token)

        await _overview(page)
        await page.get_by_role("link", name="Tenants").click()
        await page.get_by_role("link", name="acme").click()
        await _tenant(page)
        await page.get_by_role("button", name="Show the difference").click()
        await _difference(page)
        await page.get_by_role("link", name="acme").click()
        await page.get_by_role("link", name="nightly", exact=True).click()
        await _schedule(page)

        await _pause(page, database_url)
        await _resume(page, database_url)
        execution = await _trigger(page, database_url)
        await _cancel(page, database_url, execution)
        await _retry(page, database_url, execution)
        await page.goto(f"{api.url}/ui/executions/{DEAD}")
        await _dead(page)
        await page.get_by_role("button", name="Sign out").click()
        await page.goto(f"{api.url}/ui")
        await expect(page.get_by_label("API token")).to_be_visible()
    assert found == []
    records = query(
        database_url,
        "SELECT entity_type, operation, changed_by, authenticated FROM tenantcron.audit_record"
        " WHERE actor_source = 'api' AND changed_by = 'token:olga' ORDER BY id",
    )
    done = [(record["entity_type"], record["operation"]) for record in records]
    assert ("execution", "trigger") in done
    assert ("execution", "cancel") in done
    assert ("execution", "retry") in done
    assert [record for record in done if record[0] == "pause"]
    assert all(record["authenticated"] for record in records)


async def _overview(page: Page) -> None:
    attention = page.get_by_role("region", name="Needs attention")
    await expect(attention).to_contain_text("No scheduler has sent a heartbeat")
    await expect(attention).to_contain_text("2 executions failed permanently")
    # The words of a target are words, and no markup.
    await expect(attention).to_contain_text(EVIL)
    ahead = page.get_by_role("region", name="Next 24 hours")
    # 24 of the hourly one, and one each of both nightly ones.
    await expect(ahead).to_contain_text("26 executions of 3 schedules")
    assert await ahead.locator("rect.peak").count() >= 24
    past = page.get_by_role("region", name="Last 24 hours")
    for kind in ("SUCCEEDED", "SKIPPED", "MISSED", "CANCELLED", "DEAD"):
        assert await past.locator(f"rect.{kind}").count() >= 1
    await past.get_by_text("Table by hour").click()
    await expect(past.get_by_role("columnheader", name="Dead")).to_be_visible()
    await expect(page.get_by_role("region", name="Running now")).to_contain_text("acme/hourly")


async def _tenant(page: Page) -> None:
    row = page.get_by_role("row").filter(has_text="Europe/London")
    await expect(row).to_contain_text("At 01:30, every day")
    marks = row.locator("a.mark")
    assert await marks.count() == 6
    # The hidden text of each mark has the same state as its colour and sign.
    assert [text.split(",")[0].split("\n")[-1] for text in await marks.all_inner_texts()] == [
        *("succeeded", "cancelled", "missed", "skipped", "succeeded", "dead")
    ]
    limits = page.get_by_role("region", name="Status and limits")
    await expect(limits).to_contain_text("1 of 5")
    await expect(limits.get_by_role("meter", name="Schedules")).to_be_visible()


async def _difference(page: Page) -> None:
    await expect(page.get_by_role("heading", level=1)).to_have_text("Version 1 to version 2")
    await expect(page.get_by_role("region", name="hourly")).to_contain_text("added")
    await expect(page.get_by_role("region", name="old_report")).to_contain_text("removed")
    changed = page.get_by_role("region", name="nightly").get_by_role("row").last
    assert [text.strip() for text in await changed.locator("th, td").all_inner_texts()] == [
        *("timeout", "5m", "9m")
    ]


async def _schedule(page: Page) -> None:
    timetable = page.get_by_role("region", name="Timetable")
    await expect(timetable).to_contain_text("at 01:30, every day")
    await expect(timetable).to_contain_text("the clock goes forward: 01:00 to 02:00 is skipped")
    # In the gap of the spring there is no 01:30, so it occurs when the gap ends.
    await expect(timetable).to_contain_text("The schedule fires at 02:00 BST")
    assert await timetable.locator("ol.times li").count() == 8
    why = page.get_by_role("region", name="Why it did or did not run")
    await expect(why).to_contain_text("No scheduler is running")
    history = page.get_by_role("region", name="History")
    assert await history.locator("svg.plot g").count() == 6
    await expect(history.get_by_role("row").nth(1)).to_contain_text("3.0 s")


async def _pause(page: Page, url: str) -> None:
    await page.get_by_text("Pause", exact=True).click()
    await page.get_by_label("Reason", exact=True).fill(f"a storm {EVIL}")
    await page.get_by_label("Duration", exact=True).select_option("4h")
    await page.get_by_role("button", name="Pause the schedule").click()
    await expect(page.get_by_role("status")).to_contain_text("Paused.")
    await expect(page.get_by_role("region", name="Timetable")).to_contain_text(f"a storm {EVIL}")
    row = cursor(url)
    assert (row["paused_by"], row["paused_reason"]) == ("token:olga", f"a storm {EVIL}")
    assert row["paused_until"] is not None


async def _resume(page: Page, url: str) -> None:
    await page.get_by_text("Resume", exact=True).click()
    await page.get_by_role("button", name="Resume the schedule").click()
    await expect(page.get_by_role("status")).to_contain_text("Resumed.")
    assert cursor(url)["paused_at"] is None


async def _trigger(page: Page, url: str) -> str:
    await page.get_by_text("Trigger", exact=True).click()
    await page.get_by_label("Reason (optional)").fill("the month is closed")
    await page.get_by_role("button", name="Run once, now").click()
    await expect(page.get_by_role("status")).to_contain_text("Triggered.")
    execution = page.url.split("/")[-1].partition("?")[0]
    assert state(url, execution) == "PENDING"
    await expect(page.get_by_role("region", name="Audit")).to_contain_text("token:olga")
    await expect(page.get_by_role("region", name="Audit")).to_contain_text("the month is closed")
    return execution


async def _cancel(page: Page, url: str, execution: str) -> None:
    await page.get_by_text("Cancel", exact=True).click()
    await page.get_by_role("button", name="Cancel the execution").click()
    await expect(page.get_by_role("status")).to_contain_text("Cancelled.")
    assert state(url, execution) == "CANCELLED"


async def _retry(page: Page, url: str, execution: str) -> None:
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("status")).to_contain_text("Queued for retry")
    assert state(url, execution) == "PENDING"


async def _dead(page: Page) -> None:
    attempts = page.get_by_role("region", name="Attempts")
    await expect(attempts).to_contain_text("Response 503")
    await expect(attempts).to_contain_text(f"no: {EVIL}")
    assert "taken" not in await page.title()
    timing = page.get_by_role("region", name="State and timing")
    await expect(timing).to_contain_text("system:scheduler:scheduler")


async def test_a_page_updates_itself_and_reports_a_lost_connection(
    api: Api, database_url: str, chromium: Browser
) -> None:
    token = await new_token(api.database, "operator")
    async with page_of(chromium) as page:
        await sign_in(page, api.url, token)
        await page.goto(f"{api.url}/ui/executions/{RUNNING}")
        timing = page.get_by_role("region", name="State and timing")
        await expect(timing).to_contain_text("running")
        await page.get_by_text("Cancel", exact=True).click()
        await page.get_by_label("Reason (optional)").fill("half a sent")
        await page.evaluate(_WATCH_SHIFTS)
        query(
            database_url,
            "UPDATE tenantcron.execution SET state = 'SUCCEEDED', finished_at = now()"
            " WHERE state = 'RUNNING'",
        )
        await expect(timing).to_contain_text("succeeded")
        # An update keeps the text that a user is typing, and nothing moves.
        await expect(page.get_by_label("Reason (optional)")).to_have_value("half a sent")
        assert await page.evaluate("window.shifted") < 0.02

        touch = page.locator("#touch")
        await expect(touch).to_be_hidden()
        await page.route("**/ui/executions/**", lambda route: route.abort())
        await expect(touch).to_contain_text("Connection to the server lost. This page is from")
        await page.unroute("**/ui/executions/**")
        await expect(touch).to_be_hidden()
        query(database_url, "UPDATE tenantcron.api_token SET revoked_at = now()")
        await expect(touch).to_contain_text("You are signed out")


_WATCH_SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifted += one.value;
  }).observe({type: "layout-shift"});
}"""


async def test_a_link_of_another_site_works_and_a_form_of_another_site_is_rejected(
    api: Api, database_url: str, chromium: Browser
) -> None:
    """People come from chats and alerts, and are signed in already."""
    token = await new_token(api.database, "operator")
    chat = (
        f'<a href="{api.url}{NIGHTLY}">paused?</a>'
        f'<form method="post" action="{api.url}{NIGHTLY}/pause">'
        '<input name="reason" value="evil"><input name="span" value=""><button>Win</button></form>'
    )
    async with page_of(chromium) as page:
        await page.route(
            "http://chat.example/", lambda route: route.fulfill(body=chat, content_type="text/html")
        )
        await sign_in(page, api.url, token)
        own_page = await page.context.new_page()
        await own_page.goto(f"{api.url}{NIGHTLY}")

        await page.goto("http://chat.example/")
        await page.get_by_role("link", name="paused?").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("nightly")
        await page.goto("http://chat.example/")
        await page.get_by_role("button", name="Win").click()
        await expect(page.get_by_label("API token")).to_be_visible()
        assert cursor(database_url)["paused_at"] is None

        # The page that was open throughout continues to work.
        await own_page.get_by_text("Trigger", exact=True).click()
        await own_page.get_by_role("button", name="Run once, now").click()
        await expect(own_page.get_by_role("status")).to_contain_text("Triggered.")


async def test_a_viewer_has_no_actions_and_sees_only_their_tenant(
    api: Api, database_url: str, chromium: Browser
) -> None:
    token = await new_token(api.database, "viewer", "acme")
    async with page_of(chromium) as page:
        await sign_in(page, api.url, token)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview of acme")
        await expect(page.get_by_role("main")).not_to_contain_text("globex")
        attention = page.get_by_role("region", name="Needs attention")
        await expect(attention).to_contain_text("1 execution failed permanently")
        for path in (NIGHTLY, f"/ui/executions/{DEAD}"):
            await page.goto(f"{api.url}{path}")
            assert await page.get_by_role("main").get_by_role("button").count() == 0
            assert await page.get_by_role("main").locator("form").count() == 0
        await page.goto(f"{api.url}/ui/tenants")
        await expect(page.get_by_role("main")).not_to_contain_text("globex")
        for hidden in ("tenants/globex", f"executions/{OF_OTHERS}"):
            answer = await page.goto(f"{api.url}/ui/{hidden}")
            assert answer is not None
            assert answer.status == 404

        csrf = await page.goto(f"{api.url}/ui")
        assert csrf is not None
        form: dict[str, str | float | bool] = {
            "csrf": await page.locator("input[name=csrf]").first.get_attribute("value") or "",
            "reason": "sneaky",
        }
        for action in ("pause", "trigger"):
            refused = await page.request.post(f"{api.url}{NIGHTLY}/{action}", form=form)
            assert refused.status == 403
            assert "does not have the permission" in await refused.text()
    assert cursor(database_url)["paused_at"] is None
    assert state(database_url, DEAD) == "DEAD"


async def test_a_tenant_with_one_version_has_nothing_to_compare(
    api: Api, chromium: Browser
) -> None:
    token = await new_token(api.database, "viewer", "globex")
    async with page_of(chromium) as page:
        await sign_in(page, api.url, token)
        await page.goto(f"{api.url}/ui/tenants/globex")

        await expect(page.get_by_role("heading", name="Manifest versions")).to_be_visible()
        await expect(page.get_by_role("radio")).to_have_count(0)
        await expect(page.get_by_role("button", name="Show the difference")).to_have_count(0)
