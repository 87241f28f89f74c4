"""Generate the JSON Schemas from the models: `python -m tenantcron.manifests.generate FOLDER`."""

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import TypedDictSchema

from tenantcron.core.values import JsonValue
from tenantcron.manifests.language.models import ManifestSpec
from tenantcron.manifests.language.policy_models import PolicySpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ROOTS = {
    "manifest.schema.json": (ManifestSpec, "tenantcron manifest"),
    "policy.schema.json": (PolicySpec, "tenantcron policy"),
}


class _Published(GenerateJsonSchema):
    """Omits titles that repeat the key, and the suffix of the models' names."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).removesuffix("Spec")

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        generated = super().typed_dict_schema(schema)
        return generated | {"title": generated["title"].removesuffix("Spec")}


def render() -> dict[str, str]:
    """Return the text of each schema file."""
    return {file: _render(model, title) for file, (model, title) in _ROOTS.items()}


def _render(model: type, title: str) -> str:
    generated = TypeAdapter(model).json_schema(schema_generator=_Published)
    schema = {"$schema": _DIALECT} | _with_messages(generated) | {"title": title}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _with_messages(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Add what editors show instead of a regular expression or a list of words."""
    parts = {key: _with_messages_inside(part) for key, part in schema.items()}
    if "x-expects" in parts:
        return parts | {"errorMessage": f"must be {parts['x-expects']}"}
    return parts | ({"errorMessage": parts["x-hint"]} if "x-hint" in parts else {})


def _with_messages_inside(part: JsonValue) -> JsonValue:
    if isinstance(part, dict):
        return _with_messages(part)
    return [_with_messages_inside(item) for item in part] if isinstance(part, list) else part


def main(folder: Path) -> None:
    """Write the files."""
    for file, text in render().items():
        (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
