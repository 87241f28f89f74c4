"""The pictures of the pages show the dashboard as it is."""

import json

from docs.make_screenshots import IMAGES, SCREENSHOTS
from docs.picture_inputs import FILE, checksum, checksums, sources

STYLES = ".card { color: red } .other { color: blue } @media print { .card { color: black } }"
PAGE = {"page.html": '<p class="card">{{ tenant }}</p>'}


def test_the_pictures_are_not_older_than_what_they_show() -> None:
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    assert stored == checksums(), "the dashboard has changed: run `make demo ONCE=1 screenshots`"


def test_every_picture_has_a_checksum() -> None:
    names = {name for name, _, _ in SCREENSHOTS}
    assert names == checksums().keys()
    assert {image.stem for image in IMAGES.glob("*.png")} == names


def test_a_change_of_the_page_or_its_style_is_noticed() -> None:
    before = checksum(PAGE, STYLES)
    assert checksum({"page.html": PAGE["page.html"] + "<hr>"}, STYLES) != before
    assert checksum(PAGE, STYLES.replace("red", "green")) != before
    assert checksum(PAGE, STYLES.replace("black", "grey")) != before


def test_comments_spaces_and_styles_of_other_pages_do_not_count() -> None:
    spaced = {"page.html": "{# why #}\n" + PAGE["page.html"] + "\n\n"}
    changed = STYLES.replace("blue", "green") + "/* why */\n"
    assert checksum(spaced, changed) == checksum(PAGE, STYLES)


def test_included_templates_count() -> None:
    assert {"schedule.html", "base.html", "schedule_live.html"} <= sources("schedule.html").keys()
