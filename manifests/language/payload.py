"""The payload of a schedule: JSON whose placeholders are replaced, never evaluated."""

import json
import re
from collections.abc import Iterator

from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonValue
from tenantcron.core.words import shortened
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.secret_texts import is_secret_of_payload
from tenantcron.manifests.view import View
from tenantcron.schedules.settings import LONGEST_PAYLOAD

Payload = dict[str, JsonValue]

PLACEHOLDERS = ("fire_time", "execution_id", "tenant", "schedule")

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")


def check_payload(view: View) -> Iterator[Fault]:
    """Yield the faults of a payload."""
    if _is_too_large(view.value):
        message = f"the payload has more than {LONGEST_PAYLOAD:,} bytes as JSON"
        yield Fault("TC303", message, view.pointer, "pass a reference to the data instead")
        return
    for text, at in _strings(view.value, view.pointer):
        yield from _unknown_placeholders(text, at)
        yield from _secrets(text, at)


def fill(payload: JsonValue, values: dict[str, str]) -> JsonValue:
    """Replace the placeholders in every string of a payload."""
    if isinstance(payload, str):
        return _PLACEHOLDER.sub(lambda match: values[match[1].strip()], payload)
    if isinstance(payload, list):
        return [fill(item, values) for item in payload]
    if isinstance(payload, dict):
        return {key: fill(item, values) for key, item in payload.items()}
    return payload


def _is_too_large(payload: JsonValue) -> bool:
    """Stop counting at the limit: aliases can make a payload far larger than its file."""
    size = 0
    for piece in _ENCODER.iterencode(payload):
        size += len(piece.encode())
        if size > LONGEST_PAYLOAD:
            return True
    return False


def size_of(value: JsonValue) -> int:
    """Return the size of a value as JSON, in bytes."""
    return len(_ENCODER.encode(value).encode())


def _unknown_placeholders(text: str, at: Pointer) -> Iterator[Fault]:
    for name in dict.fromkeys(match[1].strip() for match in _PLACEHOLDER.finditer(text)):
        if name not in PLACEHOLDERS:
            meant = close_match(name, PLACEHOLDERS)
            hint = f"did you mean {{{{{meant}}}}}?" if meant else f"use {', '.join(PLACEHOLDERS)}"
            yield Fault("TC304", f"{{{{{shortened(name)}}}}} is not a known placeholder", at, hint)
    _, opening, rest = _PLACEHOLDER.sub(" ", text).partition("{{")
    if opening:
        message = f"`{{{{{shortened(rest)}` looks like a placeholder but is not one"
        yield Fault("TC304", message, at, f"write one of {', '.join(PLACEHOLDERS)} as {{{{name}}}}")


def _secrets(text: str, at: Pointer) -> Iterator[Fault]:
    name = next((key for key in reversed(at) if isinstance(key, str)), "")
    if is_secret_of_payload(name, text):
        message = f"`{shortened(name)}` looks like a secret, which must not be in a manifest"
        hint = "let the handler read it where it runs, and replace the exposed secret"
        yield Fault("TC407", message, at, hint)


def _strings(value: JsonValue, at: Pointer) -> Iterator[tuple[str, Pointer]]:
    """Yield every string and whole number below a value, except keys.

    A password can be a number. Depth is bounded by the loader.
    """
    if isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value), at
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, (*at, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, (*at, key))
