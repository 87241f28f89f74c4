"""JSON that is written item by item equals the output of `json.dumps`."""

import io
import json

import pytest

from tenantcron.core.json_stream import JsonStream
from tenantcron.core.values import JsonValue

ITEMS: list[JsonValue] = [{"a": 1, "b": ["line\nbreak", {}]}, "é", [], None]


@pytest.mark.parametrize("items", [ITEMS, ITEMS[:1], []], ids=["several", "one", "none"])
@pytest.mark.parametrize("margin", ["", "  "])
def test_the_output_equals_that_of_dumps(items: list[object], margin: str) -> None:
    document = {"at": "now", "items": items, "summary": {"failed": 0}}
    output = io.StringIO()

    stream = JsonStream(output, margin)
    stream.value("at", "now")
    stream.open_list("items")
    for item in items:
        stream.item(item)
    stream.close_list()
    stream.value("summary", {"failed": 0})
    stream.close()

    assert output.getvalue() == json.dumps(document, indent=2).replace("\n", f"\n{margin}")
