"""The payload of a schedule: plain JSON; its placeholders are replaced, never evaluated."""

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


def judge_payload(view: View) -> Iterator[Fault]:
    """Yield what is wrong with a payload."""
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
    """Count no further than needed: aliases can make a payload far larger than its file."""
    size = 0
    for piece in _ENCODER.iterencode(payload):
        size += len(piece.encode())
        if size > LONGEST_PAYLOAD:
            return True
    return False


def size_of(value: JsonValue) -> int:
    """Return how many bytes a value has as JSON."""
    return len(_ENCODER.encode(value).encode())


def _unknown_placeholders(text: str, at: Pointer) -> Iterator[Fault]:
    for name in dict.fromkeys(match[1].strip() for match in _PLACEHOLDER.finditer(text)):
        if name not in PLACEHOLDERS:
            meant = close_match(name, PLACEHOLDERS)
            hint = f"did you mean {{{{{meant}}}}}?" if meant else f"use {', '.join(PLACEHOLDERS)}"
            yield Fault("TC304", f"nothing fills {{{{{shortened(name)}}}}}", at, hint)
    _, opening, rest = _PLACEHOLDER.sub(" ", text).partition("{{")
    if opening:
        message = f"`{{{{{shortened(rest)}` begins like a placeholder and is none"
        yield Fault("TC304", message, at, f"write one of {', '.join(PLACEHOLDERS)} as {{{{name}}}}")


def _secrets(text: str, at: Pointer) -> Iterator[Fault]:
    name = next((key for key in reversed(at) if isinstance(key, str)), "")
    if is_secret_of_payload(name, text):
        message = f"`{shortened(name)}` looks like a secret, which has no place in a manifest"
        hint = "let the handler read it where it runs; and replace it, for it has been seen"
        yield Fault("TC407", message, at, hint)


def _strings(value: JsonValue, at: Pointer) -> Iterator[tuple[str, Pointer]]:
    """Yield every string and whole number below a value; keys are not filled.

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
