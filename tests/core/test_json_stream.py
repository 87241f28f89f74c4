"""JSON that is written item by item reads as if it were written at once."""

import io
import json

import pytest

from tenantcron.core.json_stream import JsonStream
from tenantcron.core.values import JsonValue

ITEMS: list[JsonValue] = [{"a": 1, "b": ["line\nbreak", {}]}, "é", [], None]


@pytest.mark.parametrize("items", [ITEMS, ITEMS[:1], []], ids=["several", "one", "none"])
@pytest.mark.parametrize("margin", ["", "  "])
def test_the_text_is_that_of_dumps(items: list[object], margin: str) -> None:
    whole = {"at": "now", "items": items, "summary": {"failed": 0}}
    written = io.StringIO()

    stream = JsonStream(written, margin)
    stream.value("at", "now")
    stream.open_list("items")
    for item in items:
        stream.item(item)
    stream.close_list()
    stream.value("summary", {"failed": 0})
    stream.close()

    assert written.getvalue() == json.dumps(whole, indent=2).replace("\n", f"\n{margin}")
