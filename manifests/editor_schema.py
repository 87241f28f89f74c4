"""The JSON Schema for editors: with the time zones, and with the presets of a policy."""

import json
from collections.abc import Iterable
from typing import Any

from tenantcron.cron.zones import zone_names
from tenantcron.manifests.language.schemas import SchemaName, schema_text

# A schema is JSON of any shape, as in `generate`.
_Schema = dict[str, Any]


def editor_schema(name: SchemaName, presets: Iterable[str]) -> str:
    """Return the published schema with names that it does not have."""
    schema: _Schema = json.loads(schema_text(name))
    definitions: dict[str, _Schema] = schema["$defs"]
    keys = [definition.get("properties", {}) for definition in definitions.values()]
    for properties in keys:
        if "timezone" in properties:
            _add_zones(properties["timezone"])
    names = sorted(presets)
    if names and name == "manifest":
        _add_presets(definitions, names)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _add_zones(timezone: _Schema) -> None:
    timezone["enum"] = sorted(zone_names())
    timezone["errorMessage"] = "must be an IANA time zone such as Europe/London"


def _add_presets(definitions: dict[str, _Schema], names: list[str]) -> None:
    """Offer the presets; as examples, because a manifest may also define its own timetables."""
    for definition in ("Scheduled", "Timing"):
        definitions[definition]["properties"]["preset"]["examples"] = names
    text, _ = definitions["Saga"]["properties"]["trigger"]["anyOf"]
    text["examples"] = [f"scheduled:{name}" for name in names] + text["examples"]
