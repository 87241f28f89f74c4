"""The recording of the README shows the commands of the README, and is small enough for it."""

import json
import re

from support.pages import README, ROOT

IMAGES = ROOT / "docs" / "images"
NAME = "sixty-seconds"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown_by_the_cast() -> str:
    """Return the text of the recording, without control sequences."""
    lines = (IMAGES / f"{NAME}.cast").read_text(encoding="utf-8").splitlines()
    header, *events = map(json.loads, lines)
    assert (header["version"], header["width"]) == (2, 80)
    moments = [moment for moment, _, _ in events]
    assert moments == sorted(moments)
    return CONTROL.sub("\n", "".join(text for _, _, text in events))


def test_the_recording_shows_the_commands_of_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    shown = shown_by_the_cast()
    for command in (
        "tenantcron init shop",
        "tenantcron dev",
        "schedule trigger acme/say_hello --wait",
    ):
        assert command in text
        assert command in shown
    for outcome in (
        "Dashboard  http://127.0.0.1:",
        "acme/say_hello  ",
        "SUCCEEDED, at",
        "Stopped.",
    ):
        assert outcome in shown


def test_the_picture_is_small_and_loads_nothing() -> None:
    picture = (IMAGES / f"{NAME}.svg").read_text(encoding="utf-8")
    assert len(picture.encode()) < 300_000
    assert picture.count("http") == picture.count("http://127.0.0.1") + 1  # the namespace
    assert "<script" not in picture
