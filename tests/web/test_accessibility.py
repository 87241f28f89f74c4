"""Accessibility of the dashboard: keyboard, screen reader, small screens, both themes."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import PHONE, Theme, complaints, is_signed_in, page_of, sign_in
from support.dashboard import DEAD, RUNNING
from support.fleet import query
from support.serving import Api, new_token

NIGHTLY = "/ui/tenants/acme/schedules/nightly"
PAGES = (
    "/ui",
    "/ui/tenants",
    "/ui/schedules?find=n",
    "/ui/tenants/acme",
    "/ui/tenants/acme/difference?from=1&to=2",
    "/ui/tenants/acme/tasks",
    NIGHTLY,
    f"/ui/executions/{DEAD}",
    f"/ui/executions/{RUNNING}",
    "/ui/tenants/unknown",
    "/ui/sign-in",
)

# Each script returns the elements that violate the rule in its name.
_RULES = {
    "interactive elements have a name": """() => [...document.querySelectorAll(
        "a, button, input:not([type=hidden]), select, summary, meter, svg[role=img], pre, .mark")]
      .filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label")
        || one.labels?.length || one.getAttribute("aria-labelledby")))
      .map((one) => one.outerHTML)""",
    "a field has a label": """() => [
      ...document.querySelectorAll("input:not([type=hidden]), select")]
      .filter((one) => !one.labels.length && !one.getAttribute("aria-label"))
      .map((one) => one.outerHTML)""",
    "images have a text alternative": """() => [
      ...document.querySelectorAll("img:not([alt]), svg:not([role=img]), svg:not([aria-label])")]
      .map((one) => one.outerHTML.slice(0, 200))""",
    "a sign for the eye only is not read out": """() => [...document.querySelectorAll(
        ".sign, .state > span, .mark > span:first-child")]
      .filter((one) => one.getAttribute("aria-hidden") !== "true").map((one) => one.outerHTML)""",
    "headings begin with one of the first level and skip none": """() => {
      const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((one) => +one.tagName[1]);
      const bad = levels.filter((one, at) => one > (levels[at - 1] ?? 0) + 1);
      return bad.length || levels.filter((one) => one === 1).length !== 1 ? levels : [];
    }""",
    "ids are unique": """() => [...document.querySelectorAll("[id]")].map((one) => one.id)
      .filter((one, at, all) => all.indexOf(one) !== at)""",
    "references exist": """() => [
      ...document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for]")]
      .flatMap((one) => [one.getAttribute("aria-labelledby"), one.getAttribute("aria-describedby"),
        one.getAttribute("for")].filter(Boolean).join(" ").split(" "))
      .filter((id) => !document.getElementById(id))""",
    "tables have column headers": """() => [...document.querySelectorAll("table")]
      .filter((one) => ![...one.querySelectorAll("thead th")].length
        || [...one.querySelectorAll("th")].some((cell) => !cell.scope))
      .map((one) => one.outerHTML.slice(0, 200))""",
    "the order of the page is the order of the keyboard": """() => [
      ...document.querySelectorAll("[tabindex]")].filter((one) => one.tabIndex > 0)
      .map((one) => one.outerHTML)""",
    "the page has a language and a title": """() =>
      document.documentElement.lang === "en" && document.title.includes("tenantcron")
        ? [] : [document.title]""",
    "nothing is wider than the screen": """() =>
      document.documentElement.scrollWidth > document.documentElement.clientWidth
        ? [...document.querySelectorAll("main *")].filter(
            (one) => one.getBoundingClientRect().right > innerWidth && !one.closest(".scroll"))
          .map((one) => one.outerHTML.slice(0, 120)) : []""",
    "touch targets are large enough": """() => [...document.querySelectorAll(
        "button, input:not([type=hidden]), select, .actions summary, nav a, .mark, .cards th a")]
      .filter((one) => one.checkVisibility())
      .filter((one) => Math.min(one.offsetWidth, one.offsetHeight) < 24)
      .map((one) => `${one.offsetWidth}x${one.offsetHeight} ${one.outerHTML}`)""",
}


async def _obeys_the_rules(page: Page) -> None:
    broken = {rule: await page.evaluate(check) for rule, check in _RULES.items()}
    assert {rule: found for rule, found in broken.items() if found} == {}, page.url
    for role in ("banner", "main", "contentinfo"):
        await expect(page.get_by_role(role)).to_have_count(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_pages_are_usable_on_a_phone_and_by_screen_reader(
    api: Api, chromium: Browser, theme: Theme
) -> None:
    token = await new_token(api.database, "operator")
    async with page_of(chromium, on=PHONE, theme=theme) as page:
        await sign_in(page, api.url, token)
        found = complaints(page)
        for path in PAGES:
            await page.goto(f"{api.url}{path}")
            await _obeys_the_rules(page)
        await page.goto(f"{api.url}/ui/tenants/acme")
        # Tables are cards here: each value stands under the other, with its own label.
        cell = page.locator("td[data-label=Timetable]").first
        assert await cell.evaluate("(one) => getComputedStyle(one).display") == "grid"
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(18, 24, 26)") == (theme == "dark")
    # The page that is not there is the only thing that a browser complains about.
    assert all("404" in item for item in found)


_FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  return {at: [...document.querySelectorAll("*")].indexOf(one), tag: one.tagName,
    isSeen: style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2
      && box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.left >= 0};
}"""
_STOPS = """() => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]
  .filter((one) => one.checkVisibility()).length"""


async def _walk(page: Page) -> None:
    """Tab through all of a page: every stop is seen, and each comes after the last."""
    stops = await page.evaluate(_STOPS)
    places = []
    for _ in range(stops):
        await page.keyboard.press("Tab")
        focused = await page.evaluate(_FOCUSED)
        assert focused["isSeen"], (page.url, focused)
        places.append(focused["at"])
    assert places == sorted(set(places)), page.url


async def _tab_to(page: Page, name: str) -> None:
    """Press Tab until something of that name has the focus."""
    label = "document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent"
    for _ in range(60):
        await page.keyboard.press("Tab")
        if (await page.evaluate(label)).strip() == name:
            return
    pytest.fail(f"the keyboard does not lead to {name}")


async def test_all_actions_work_with_the_keyboard(
    api: Api, chromium: Browser, database_url: str
) -> None:
    token = await new_token(api.database, "operator", name="olga")
    async with page_of(chromium) as page:
        await page.goto(f"{api.url}/ui")
        # The field has the focus already.
        await page.keyboard.type(token)
        await page.keyboard.press("Enter")
        await is_signed_in(page)
        await _walk(page)

        await page.goto(f"{api.url}{NIGHTLY}")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        assert (await page.evaluate(_FOCUSED))["isSeen"]
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        await _tab_to(page, "Pause")
        await page.keyboard.press("Enter")
        await _tab_to(page, "Reason")
        await page.keyboard.type("by keyboard")
        await _tab_to(page, "Duration")
        await page.keyboard.press("ArrowDown")
        await _tab_to(page, "Pause the schedule")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_contain_text("Paused.")
    (row,) = query(
        database_url,
        "SELECT paused_reason, paused_until - paused_at AS span"
        " FROM tenantcron.schedule_cursor WHERE paused_at IS NOT NULL",
    )
    assert row["paused_reason"] == "by keyboard"
    assert timedelta(minutes=59) < row["span"] <= timedelta(hours=1)


async def test_an_update_keeps_the_focus(api: Api, chromium: Browser, database_url: str) -> None:
    token = await new_token(api.database, "operator")
    async with page_of(chromium) as page:
        await sign_in(page, api.url, token)
        region = page.get_by_role("region", name="Last 24 hours")
        summary = region.get_by_text("Table by hour")
        await summary.focus()
        query(database_url, "UPDATE tenantcron.execution SET state = 'DEAD' WHERE state = 'MISSED'")
        await expect(region).to_contain_text("missed 0")
        await expect(summary).to_be_focused()


async def test_an_update_keeps_the_focus_on_the_second_link_to_a_page(
    api: Api, chromium: Browser, database_url: str
) -> None:
    token = await new_token(api.database, "operator")
    async with page_of(chromium) as page:
        await sign_in(page, api.url, token)
        await page.goto(f"{api.url}{NIGHTLY}")
        links = page.locator(f'#live a[href="/ui/executions/{DEAD}"]')
        await expect(links).to_have_count(2)
        await links.nth(1).focus()
        query(database_url, "UPDATE tenantcron.execution SET state = 'DEAD' WHERE state = 'MISSED'")
        await expect(page.locator("#live").get_by_text("missed")).to_have_count(0)
        await expect(links.nth(1)).to_be_focused()


_TEXT = 4.5
_SHAPES = 3.0


def test_text_and_shapes_have_enough_contrast_in_both_themes() -> None:
    """The contrast of every pair of colours that meet, by the rules of WCAG AA."""
    sheet = (Path(__file__).parents[2] / "web/static/style.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", part)) for part in _themes(sheet))
    assert light.keys() == dark.keys()
    words = [(ink, on) for ink in ("ink", "soft", "accent") for on in ("ground", "card", "hover")]
    words += [("accent-ink", "accent"), ("bad", "card"), ("card", "bad")]
    words += [(kind, f"{kind}-soft") for kind in ("good", "bad", "warn", "cool", "idle")]
    shapes = [(kind, "card") for kind in ("due", "done", "bad", "warn", "cool", "idle", "focus")]
    for theme in (light, dark):
        for least, pairs in ((_TEXT, words), (_SHAPES, shapes)):
            poor = [pair for pair in pairs if _contrast(theme[pair[0]], theme[pair[1]]) < least]
            assert poor == []


def _themes(sheet: str) -> tuple[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    return light, dark


def _contrast(first: str, second: str) -> float:
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
