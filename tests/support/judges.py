"""Validators of structure: the JSON Schemas, the models, and our own check."""

import json
from collections.abc import Iterator
from typing import Any

import regress
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic import TypeAdapter
from pydantic import ValidationError as ModelError

from tenantcron.core.values import JsonValue
from tenantcron.manifests.editor_schema import editor_schema
from tenantcron.manifests.language.models import ManifestSpec
from tenantcron.manifests.language.policy_models import PolicySpec
from tenantcron.manifests.language.schemas import SchemaName, schema_text
from tenantcron.manifests.language.structure import check_structure

Errors = Iterator[ValidationError]
Rule = dict[str, Any]


def _matches(pattern: str, text: str) -> bool:
    """Match as JSON Schema does: in Python's `re`, `$` also matches before a final newline."""
    return regress.Regex(pattern).find(text) is not None


def _pattern(_: object, pattern: str, value: object, __: Rule) -> Errors:
    if isinstance(value, str) and not _matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Rule, value: object, _: Rule) -> Errors:
    members = value if isinstance(value, dict) else {}
    for pattern, rule in patterns.items():
        for key, member in members.items():
            if _matches(pattern, key):
                yield from validator.descend(member, rule)


def _additional_properties(
    validator: Any, rule: Rule | bool, value: object, parent: Rule
) -> Errors:
    members = value if isinstance(value, dict) else {}
    for key, member in members.items():
        known = key in parent.get("properties", {})
        if known or any(_matches(pattern, key) for pattern in parent.get("patternProperties", {})):
            continue
        yield from validator.descend(member, rule)


_Validator: Any = extend(  # type: ignore[no-untyped-call] # its stub has no types
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
)


def _editor_validator(name: SchemaName) -> Any:
    """Return the schema for editors without its time zones, which are not structure."""
    schema = json.loads(editor_schema(name, ()))
    for definition in schema["$defs"].values():
        definition.get("properties", {}).get("timezone", {}).pop("enum", None)
    return _Validator(schema)


_SCHEMAS = {
    "manifest": _Validator(json.loads(schema_text("manifest"))),
    "policy": _Validator(json.loads(schema_text("policy"))),
}
_EDITORS = {"manifest": _editor_validator("manifest"), "policy": _editor_validator("policy")}
_MODELS: dict[SchemaName, TypeAdapter[Any]] = {
    "manifest": TypeAdapter(ManifestSpec),
    "policy": TypeAdapter(PolicySpec),
}


def schema_accepts(name: SchemaName, data: JsonValue) -> bool:
    """Validate with jsonschema."""
    return bool(_SCHEMAS[name].is_valid(data))


def models_accept(name: SchemaName, data: JsonValue) -> bool:
    """Validate with pydantic, strictly; 3.0 is an integer in JSON Schema, not in pydantic."""
    try:
        _MODELS[name].validate_python(_with_integers(data), strict=True)
    except ModelError:
        return False
    return True


def structure_accepts(name: SchemaName, data: JsonValue) -> bool:
    """Validate with our own check; near misses of keys are reported only there."""
    return all(fault.code == "TC105" for fault in check_structure(name, data))


def verdicts(name: SchemaName, data: JsonValue) -> dict[str, bool]:
    """Return the result of each validator."""
    return {
        "jsonschema": schema_accepts(name, data),
        "editor": bool(_EDITORS[name].is_valid(data)),
        "pydantic": models_accept(name, data),
        "ours": structure_accepts(name, data),
    }


def _with_integers(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    return value
