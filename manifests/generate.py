"""Writes the JSON Schemas from the models: `python -m tenantcron.manifests.generate FOLDER`."""

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from tenantcron.manifests.language import models

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ROOTS = {
    "manifest.schema.json": (models.Manifest, "tenantcron manifest"),
    "policy.schema.json": (models.Policy, "tenantcron policy"),
}


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes up: `Catch Up Window` says no more than the key."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False


def render() -> dict[str, str]:
    """Return the text of each schema file."""
    return {file: _render(model, title) for file, (model, title) in _ROOTS.items()}


def _render(model: type, title: str) -> str:
    generated = TypeAdapter(model).json_schema(schema_generator=_Untitled)
    schema = {"$schema": _DIALECT} | generated | {"title": title}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(folder: Path) -> None:
    """Write the files."""
    for file, text in render().items():
        (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
