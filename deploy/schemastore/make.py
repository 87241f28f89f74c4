"""Write the files for SchemaStore: `python deploy/schemastore/make.py`, after `make generated`.

SchemaStore asks for draft-07, because editors support it best. There, keys beside `$ref` are
ignored, so they move into an `allOf`. Time zones are not listed: the list would become outdated.
"""

import json
from pathlib import Path
from typing import Any

from tenantcron.manifests.editor_schema import editor_schema

NAME = "tenantcron-manifest"
FOLDER = Path(__file__).parent


def schema_text() -> str:
    """Return the schema of manifests in the form of SchemaStore."""
    schema = json.loads(editor_schema("manifest", ()))
    for definition in schema["$defs"].values():
        definition.get("properties", {}).get("timezone", {}).pop("enum", None)
    definitions = schema.pop("$defs")
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://json.schemastore.org/{NAME}.json",
    }
    converted = _draft_07(schema | {"definitions": definitions})
    return json.dumps(converted | head, indent=2, ensure_ascii=False) + "\n"


def _draft_07(part: Any) -> Any:
    """Convert a part of the schema, without our own keywords."""
    if isinstance(part, list):
        return [_draft_07(item) for item in part]
    if not isinstance(part, dict):
        return part
    schema = {key: _draft_07(value) for key, value in part.items() if not key.startswith("x-")}
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    schema["$ref"] = reference.replace("#/$defs/", "#/definitions/")
    if len(schema) == 1:
        return schema
    target = {"$ref": schema.pop("$ref")}
    return schema | {"allOf": [target, *schema.get("allOf", ())]}


if __name__ == "__main__":
    (FOLDER / f"{NAME}.json").write_text(schema_text(), encoding="utf-8")
