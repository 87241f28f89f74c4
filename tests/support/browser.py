"""A real browser: Debian's chromium, driven by Playwright.

Without chromium, the tests that need it are skipped. With `BROWSER_TESTS=required`, as in CI, they
fail instead.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect
from support.patience import PATIENCE

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
Theme = Literal["light", "dark"]
# In milliseconds, as everywhere in Playwright.
expect.set_options(timeout=PATIENCE * 1000)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Start a browser."""
    # Before the driver starts: a skip while it is running ends with an error of the driver.
    executable = _chromium()
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(
            executable_path=executable, args=ARGUMENTS, timeout=PATIENCE * 1000
        )
        try:
            yield running
        finally:
            await running.close()


@asynccontextmanager
async def page_of(
    running: Browser, *, on: ViewportSize = DESK, theme: Theme = "light"
) -> AsyncIterator[Page]:
    """Open a page with separate cookies and cache."""
    context = await running.new_context(viewport=on, color_scheme=theme)
    try:
        context.set_default_timeout(PATIENCE * 1000)
        yield await context.new_page()
    finally:
        await context.close()


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        why = "chromium is missing: install it to run the tests of the dashboard"
        if os.environ.get("BROWSER_TESTS") == "required":
            pytest.fail(why)
        pytest.skip(why)
    return found


def complaints(page: Page) -> list[str]:
    """Collect browser errors: failing scripts, and violations of the content security policy."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "console",
        lambda message: found.append(message.text) if message.type == "error" else None,
    )
    return found


async def sign_in(page: Page, url: str, token: str) -> None:
    """Sign in through the form."""
    await page.goto(f"{url}/ui")
    await page.get_by_label("API token").fill(token)
    await page.get_by_role("button", name="Sign in").click()
    await is_signed_in(page)


async def is_signed_in(page: Page) -> None:
    """Wait for the first page after the sign-in form."""
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()
