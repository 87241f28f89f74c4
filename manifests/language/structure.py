"""Check the structure of a document with the published JSON Schema, with our own messages.

Editors use the same schema and find the same mistakes. The checker supports only the keywords that
our models produce; a test compares its verdict with jsonschema's on every example. It finds all
faults, and continues below a fault if the value can still be checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tenantcron.core.lookalikes import to_ascii
from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonValue
from tenantcron.core.words import shortened
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language import hints
from tenantcron.manifests.language.keywords import compiled, is_allowed, is_type, type_of
from tenantcron.manifests.language.schemas import SchemaName, schema

if TYPE_CHECKING:
    from tenantcron.manifests.language.schemas import Schema

_TYPE_WORDS = {
    "null": "nothing",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "a mapping",
}
# Codes of faults that make a value unusable.
_UNUSABLE_CODES = frozenset({"TC101", "TC103", "TC104", "TC105", "TC106", "TC107", "TC116"})


def check_structure(name: SchemaName, data: JsonValue, at: Pointer = ()) -> list[Fault]:
    """Return every structural fault of the data at a pointer."""
    return list(_check(schema(name), data, at, Suggestions()))


class Suggestions:
    """Finds the likely meaning of misspelt keys, for a limited number of keys."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 50

    def for_key(self, key: str, known: Iterable[str]) -> str | None:
        """Return the key that the author probably meant."""
        self.left -= 1
        return close_match(key, known) if self.left >= 0 else None


def unusable(faults: Iterable[Fault]) -> frozenset[Pointer]:
    """Return the pointers of values that later checks must not read."""
    return frozenset(fault.pointer for fault in faults if fault.code in _UNUSABLE_CODES)


def _check(
    rule: Schema, value: JsonValue, at: Pointer, suggestions: Suggestions
) -> Iterator[Fault]:
    """Check one value against one schema."""
    if "anyOf" in rule:
        yield from _check_alternatives(rule, value, at, suggestions)
    elif "type" not in rule:
        return  # any value: a section of another tool, or part of a payload
    elif not is_type(rule["type"], value):
        yield _wrong_type(rule, value, at)
    elif isinstance(value, dict):
        yield from _check_object(rule, value, at, suggestions)
    elif isinstance(value, list):
        yield from _check_array(rule, value, at, suggestions)
    elif not is_allowed(rule, value):
        yield _invalid_value(rule, value, at)


def _check_alternatives(
    rule: Schema, value: JsonValue, at: Pointer, suggestions: Suggestions
) -> Iterator[Fault]:
    """Check alternatives, which either differ in type or are all plain values."""
    fitting = [branch for branch in rule["anyOf"] if is_type(branch["type"], value)]
    if isinstance(value, dict | str) and len(fitting) == 1 and "x-expects" not in rule:
        yield from _check(fitting[0], value, at, suggestions)
    elif not fitting:
        yield _wrong_type(rule, value, at, [branch["type"] for branch in rule["anyOf"]])
    elif not any(is_allowed(branch, value) for branch in fitting):
        yield _invalid_value(rule, value, at)


def _check_array(
    rule: Schema, value: list[JsonValue], at: Pointer, suggestions: Suggestions
) -> Iterator[Fault]:
    if len(value) < rule.get("minItems", 0):
        yield Fault("TC106", f"{_label(at)} needs at least one entry", at)
    seen: set[str] = set()
    for index, item in enumerate(value):
        if rule.get("uniqueItems") and isinstance(item, str):
            if item in seen:
                yield Fault("TC106", f"{_shown(item)} is listed twice", (*at, index))
            seen.add(item)
        if item is None:
            message = f"{_label((*at, index))} has no value"
            yield Fault("TC104", message, (*at, index), "remove the entry")
        else:
            yield from _check(rule.get("items", {}), item, (*at, index), suggestions)


def _check_object(
    rule: Schema, value: dict[str, JsonValue], at: Pointer, suggestions: Suggestions
) -> Iterator[Fault]:
    yield from _number_of_keys(rule, value, at)
    if "x-one-of" in rule:
        yield from _timetable_count(rule, value, at)
    for key, item in value.items():
        entry = _entry_rule(rule, key)
        if entry is None:
            yield from _unexpected_key(rule, key, at, suggestions)
        elif item is None and ("type" in entry or "anyOf" in entry):
            misplaced = hints.for_missing_value(entry, key, value)
            yield _missing_value(rule, entry, (*at, key), misplaced)
        else:
            yield from _check(entry, item, (*at, key), suggestions)


def _entry_rule(rule: Schema, key: str) -> Schema | None:
    """Return the schema of an entry of a mapping, None if no keyword applies."""
    if key in rule.get("properties", {}):
        return rule["properties"][key]
    for pattern, entry in rule.get("patternProperties", {}).items():
        if compiled(pattern).fullmatch(key):
            return entry
    other = rule.get("additionalProperties")
    return other if isinstance(other, dict) else None


def _number_of_keys(rule: Schema, value: dict[str, JsonValue], at: Pointer) -> Iterator[Fault]:
    for key in rule.get("required", ()):
        if key not in value:
            yield Fault("TC102", f"{_label(at)} has no `{key}`", at, f"add `{key}:`")
    if len(value) < rule.get("minProperties", 0):
        keys = ", ".join(rule["properties"])
        yield Fault("TC102", f"{_label(at)} is empty", at, f"add one of {keys}")
    if len(value) > rule.get("maxProperties", len(value)):
        keys = " and ".join(f"`{shortened(key)}`" for key in value)
        yield Fault("TC106", f"{_label(at)} has {keys}", at, "keep one of them")


def _timetable_count(rule: Schema, value: dict[str, JsonValue], at: Pointer) -> Iterator[Fault]:
    """Check that there is exactly one timetable."""
    keys = rule["x-one-of"]
    present = [key for key in value if key in keys]
    if not present:
        yield Fault("TC111", f"{_label(at)} has no timetable", at, f"add one of {', '.join(keys)}")
    for key in present[1:]:
        message = f"`{present[0]}` and `{key}` are both timetables"
        yield Fault("TC111", message, (*at, key), "keep one of the two", at_key=True)


def _unexpected_key(
    rule: Schema, key: str, at: Pointer, suggestions: Suggestions
) -> Iterator[Fault]:
    known = rule.get("properties", {})
    if "patternProperties" in rule:
        naming = rule["propertyNames"]
        message = f"`{shortened(key)}` is not {naming['x-expects']}"
        hint = hints.for_name(key, next(iter(rule["patternProperties"])))
        yield Fault(naming["x-code"], message, (*at, key), hint, at_key=True)
    elif rule.get("additionalProperties") is False:
        meant = suggestions.for_key(to_ascii(key) or key, known)
        hint = _did_you_mean(meant) if meant else hints.for_unknown_key(key, known)
        hint = hints.with_foreign_letter(key, hint or f"{_label(at)} has {', '.join(known)}")
        message = f"{_label(at)} has no key `{shortened(key)}`"
        yield Fault("TC101", message, (*at, key), hint, at_key=True)
    elif near := close_match(to_ascii(key) or key, known):
        message = f"`{key}` is not a key of tenantcron, but resembles `{near}`"
        hint = hints.with_foreign_letter(key, _did_you_mean(near))
        yield Fault("TC105", message, (*at, key), hint, at_key=True)


def _did_you_mean(key: str) -> str:
    return f"did you mean `{key}`?"


def _wrong_type(
    rule: Schema, value: JsonValue, at: Pointer, types: list[str] | None = None
) -> Fault:
    words = " or ".join(dict.fromkeys(_TYPE_WORDS[name] for name in types or [rule["type"]]))
    expected = _expected(rule) if "x-expects" in rule or "enum" in rule else words
    message = f"{_label(at)} must be {expected}, not {_TYPE_WORDS[type_of(value)]}"
    hint = hints.for_value(rule, value, at[-1]) if at else None
    return Fault("TC103", message, at, hint or _type_hint(expected, value))


def _missing_value(parent: Schema, rule: Schema, at: Pointer, hint: str | None) -> Fault:
    """Report a key without a value; without a better hint, suggest only values that are valid."""
    ways = ["write a value"]
    if rule.get("type") == "array" and "minItems" not in rule:
        ways.append("[] if there are none")
    if rule.get("type") == "object" and not rule.keys() & {"required", "x-one-of", "minProperties"}:
        ways.append("{} if there are none")
    needed = {*parent.get("required", ()), *parent.get("x-one-of", ())}
    if at[-1] not in needed:
        ways.append("remove the key")
    return Fault("TC104", f"{_label(at)} has no value", at, hint or ", or ".join(ways))


def _type_hint(expected: str, value: JsonValue) -> str | None:
    if isinstance(value, str) and expected == _TYPE_WORDS["boolean"]:
        return "write true or false, without quotes"
    if isinstance(value, bool | int | float) and expected == _TYPE_WORDS["string"]:
        return "put it in quotes"
    return None


def _invalid_value(rule: Schema, value: JsonValue, at: Pointer) -> Fault:
    message = f"{_label(at)} must be {_expected(rule)}, not {_shown(value)}"
    hint = hints.for_text(rule, value) if isinstance(value, str) else None
    hint = hint or rule.get("x-hint") or hints.for_value(rule, value, at[-1])
    return Fault(rule.get("x-code", "TC106"), message, at, hint)


def _expected(rule: Schema) -> str:
    if "x-expects" in rule:
        return rule["x-expects"]
    if "enum" in rule:
        return f"one of {', '.join(rule['enum'])}"
    if "maxLength" in rule:
        return f"at most {rule['maxLength']} characters long"
    return f"from {rule['minimum']:g} to {rule['maximum']:g}"


def _label(at: Pointer) -> str:
    """Describe the place of a pointer in words."""
    if not at:
        return "the manifest"
    if isinstance(at[-1], int):
        inside = f" of `{at[-2]}`" if len(at) > 1 else ""
        return f"entry {at[-1] + 1}{inside}"
    return f"`{shortened(at[-1])}`"


def _shown(value: JsonValue) -> str:
    if isinstance(value, str):
        return f'"{shortened(value)}"' if value else "an empty string"
    return shortened(str(value))
