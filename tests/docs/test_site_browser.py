"""A browser reads the documentation site, which is only static files."""

import shutil
from pathlib import Path

from playwright.async_api import expect
from support.browser import browser, complaints, page_of
from support.site import LABEL, built_site, served_files

from docs.make_versions import write_versions


async def test_a_reader_searches_and_switches_versions_with_static_files_only(
    run_folder: Path, tmp_path: Path
) -> None:
    both = tmp_path / "both"
    shutil.copytree(built_site(run_folder), both)
    old = both / "0.1"
    shutil.copytree(both / LABEL, old)
    (old / "operating.html").unlink()
    for file in (old / "index.html", old / "cron.html"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(f'="{LABEL}"', '="0.1"'), encoding="utf-8")
    write_versions(both)
    with served_files(both) as url:
        async with browser() as running, page_of(running) as page:
            errors = complaints(page)
            await page.goto(f"{url}/{LABEL}/search.html?q=daylight")
            await expect(page.locator("#search-results a").first).to_be_visible()
            await page.goto(f"{url}/{LABEL}/cron.html")
            switcher = page.get_by_label("Version")
            await expect(switcher).to_have_value(LABEL)
            await switcher.select_option("0.1")
            await page.wait_for_url(f"{url}/0.1/cron.html")
            await expect(switcher).to_have_value("0.1")
            assert errors == []
            await page.goto(f"{url}/{LABEL}/operating.html")
            await switcher.select_option("0.1")
            await page.wait_for_url(f"{url}/0.1/")
