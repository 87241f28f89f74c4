"""The JSON Schema for editors: readable messages, time zones, and the presets of a policy.

Language servers show `errorMessage` for a wrong type, but not for a number that is out of range,
and they compare a value with the first alternative of an `anyOf`. So alternatives become
conditions here: the type of a value selects the one that it is compared with.
"""

import json
from collections.abc import Iterable
from typing import Any

from tenantcron.cron.zones import zone_names
from tenantcron.manifests.language.schemas import SchemaName, schema_text

# A schema is JSON of any shape, as in `generate`.
_Schema = dict[str, Any]

# What editors insert for a new saga; `${1:name}` is a place to fill in.
_SNIPPETS: list[_Schema] = [
    {
        "label": f"saga: {timetable}",
        "description": f"A saga with the timetable `{timetable}`.",
        "body": {
            "name": "${1:name}",
            "trigger": {"scheduled": {timetable: value, "timezone": "${4:UTC}"}},
        },
    }
    for timetable, value in {
        "cron": "${2:0 2 * * *}",
        "daily": {"at": '"${2:02:00}"'},
        "weekly": {"on": ["${2:mon}"], "at": '"${3:02:00}"'},
        "monthly": {"day": "${2:1}", "at": '"${3:02:00}"'},
    }.items()
]


def editor_schema(name: SchemaName, presets: Iterable[str]) -> str:
    """Return the published schema with names, snippets and messages that it does not have."""
    schema: _Schema = json.loads(schema_text(name))
    definitions: dict[str, _Schema] = schema["$defs"]
    keys = [definition.get("properties", {}) for definition in definitions.values()]
    for properties in keys:
        if "timezone" in properties:
            _add_zones(properties["timezone"])
    if name == "manifest":
        _add_presets(definitions, sorted(presets))
        definitions["Saga"]["defaultSnippets"] = _SNIPPETS
    return json.dumps(_readable(schema, definitions), indent=2, ensure_ascii=False) + "\n"


def _add_zones(timezone: _Schema) -> None:
    timezone["enum"] = sorted(zone_names())
    timezone["errorMessage"] = "must be an IANA time zone such as Europe/London"


def _add_presets(definitions: dict[str, _Schema], names: list[str]) -> None:
    """Offer the presets; as examples, because a manifest may also define its own timetables."""
    for definition in ("Scheduled", "Timing"):
        definitions[definition]["properties"]["preset"]["examples"] = names
    text, _ = definitions["Saga"]["properties"]["trigger"]["anyOf"]
    triggers = [f"scheduled:{name}" for name in names] + text["examples"]
    text["examples"] = list(dict.fromkeys(triggers))


def _readable(part: Any, definitions: dict[str, _Schema]) -> Any:
    """Rewrite the parts of a schema whose messages would be hard to read."""
    if isinstance(part, list):
        return [_readable(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    schema = {key: _readable(value, definitions) for key, value in part.items()}
    if "anyOf" in schema:
        return _with_conditions(schema, definitions)
    if schema.get("type") == "array" and "errorMessage" not in schema:
        return schema | {"errorMessage": _list_message(schema)}
    # The root and the saga keep their type: snippets of lists and files are made of it.
    is_definition = "properties" in schema and schema.get("type") == "object"
    is_listed = "$schema" in schema or "defaultSnippets" in schema
    return _with_mapping_message(schema) if is_definition and not is_listed else schema


def _with_conditions(schema: _Schema, definitions: dict[str, _Schema]) -> _Schema:
    """Replace `anyOf`: of numbers and words, or of a text and a mapping."""
    alternatives: list[_Schema] = schema.pop("anyOf")
    if all("type" in alternative for alternative in alternatives):
        types = sorted({alternative["type"] for alternative in alternatives})
        words = {"examples": [each["const"] for each in alternatives if "const" in each]}
        # The type of the value is checked already, so no value of these types passes.
        refused = {"type": "null", "errorMessage": schema["errorMessage"]}
        condition = {"if": {"anyOf": alternatives}, "else": refused}
        return schema | {"type": types} | words | condition
    text, mapping = alternatives
    kept = {key: value for key, value in text.items() if key not in ("type", "examples")}
    message = f"must be text, or a mapping with {_keys(mapping, definitions)}"
    words = {"examples": text.get("examples") or text.get("enum", [])}
    condition = {"if": {"type": "object"}, "then": mapping, "else": kept}
    return schema | {"type": ["string", "object"], "errorMessage": message} | words | condition


def _keys(mapping: _Schema, definitions: dict[str, _Schema]) -> str:
    """Return the keys of a definition, or those of which it needs one."""
    definition = definitions[mapping["$ref"].removeprefix("#/$defs/")]
    return ", ".join(mapping.get("x-one-of") or definition["properties"])


def _with_mapping_message(definition: _Schema) -> _Schema:
    """Give a mapping a message for other types only, not for missing or unknown keys."""
    message = f"must be a mapping with {', '.join(definition['properties'])}"
    is_mapping = {"type": definition.pop("type"), "errorMessage": message}
    return definition | {"allOf": [is_mapping, *definition.get("allOf", ())]}


def _list_message(schema: _Schema) -> str:
    entries = schema["items"].get("enum")
    return f"must be a list of {', '.join(entries)}" if entries else "must be a list"
