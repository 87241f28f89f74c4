"""Hints for common mistakes in the structure of a document: what to write instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tenantcron.core.durations import PATTERN
from tenantcron.core.lookalikes import describe_foreign, to_ascii
from tenantcron.core.suggest import close_match
from tenantcron.core.words import shortened
from tenantcron.cron.errors import CronError
from tenantcron.cron.parse import parse
from tenantcron.manifests.language.keywords import compiled, is_allowed, is_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tenantcron.core.values import JsonValue
    from tenantcron.manifests.language.schemas import Schema

_DURATION = f"^{PATTERN}$"
_LONGEST_NAME = 128
_DIGITS = re.compile("[0-9]{1,9}")
# The keys that a plain value in place of a mapping may mean, by the title of the mapping.
_MEANT_KEYS = {
    "Retry": ("max_attempts",),
    "Daily": ("at",),
    "Scheduled": ("preset", "every", "cron"),
}


def for_value(rule: Schema, value: JsonValue, key: str | int) -> str | None:
    """Return what to write instead of a value of the wrong type or form."""
    if rule.get("pattern") == _DURATION:
        return f"write {value}s" if _DIGITS.fullmatch(str(value)) else None
    replacement = _as_list(rule, value) or _as_mapping(rule, value)
    return f"write `{key}: {replacement}`" if replacement else None


def for_text(rule: Schema, text: str) -> str | None:
    """Return which word was meant, or which letter is not allowed."""
    if "enum" in rule and (meant := _meant_word(to_ascii(text) or text, rule["enum"])):
        return with_foreign_letter(text, f"did you mean {meant}?")
    # A rule with its own hint is not for names: an owner may have capitals.
    is_name = "pattern" in rule and "x-hint" not in rule
    return for_name(text, rule["pattern"]) if is_name else None


def for_name(text: str, pattern: str) -> str | None:
    """Return which letter of a text is not ASCII, and how to write the text."""
    spelled = (to_ascii(text[:_LONGEST_NAME]) or "").strip().lower().replace(" ", "_")
    is_valid = len(text) <= _LONGEST_NAME and compiled(pattern).fullmatch(spelled)
    return with_foreign_letter(text, f"write {spelled}" if is_valid else None)


def for_unknown_key(key: str, known: Mapping[str, Schema]) -> str | None:
    """Return the mappings that have a key, if some of those that belong here do."""
    owners = [f"`{name}:`" for name, rule in known.items() if key in rule.get("properties", ())]
    return f"move it below {' or '.join(owners)}" if owners else None


def for_missing_value(rule: Schema, key: str | int, siblings: Iterable[str]) -> str | None:
    """Return which key is not indented, if one beside an empty mapping belongs into it."""
    own = {name for part in rule.get("anyOf", [rule]) for name in part.get("properties", ())}
    misplaced = next((name for name in siblings if name in own), None)
    return f"indent `{misplaced}:` further than `{key}:`" if misplaced else None


def with_foreign_letter(text: str, hint: str | None) -> str | None:
    """Return a hint that also names the first letter of a text that is not ASCII."""
    return "; ".join(filter(None, (describe_foreign(text), hint))) or None


def is_cron(text: str) -> bool:
    """Whether a text is a timetable."""
    try:
        parse(text)
    except CronError:
        return False
    return True


def _meant_word(text: str, words: Iterable[str]) -> str | None:
    """Return the word that is similar, or that a longer form such as `Monday` begins with."""
    words = list(words)
    return close_match(text, words) or next(
        (word for word in words if text.lower().startswith(word)), None
    )


def _as_list(rule: Schema, value: JsonValue) -> str | None:
    """Write words as a list."""
    if rule.get("type") != "array" or not isinstance(value, str):
        return None
    allowed = rule["items"].get("enum", ())
    words = [_meant_word(word, allowed) for word in re.split("[, ]+", value[:100].strip())]
    return f"[{', '.join(filter(None, words))}]" if all(words) else None


def _as_mapping(rule: Schema, value: JsonValue) -> str | None:
    """Write a plain value as a mapping with the key that it probably means."""
    for key in _MEANT_KEYS.get(rule.get("title", ""), ()):
        entry = rule["properties"][key]
        if is_type(entry["type"], value) and is_allowed(entry, value):
            is_valid = key != "cron" or is_cron(str(value))
            return f"{{{key}: {_quoted(value)}}}" if is_valid else None
    return None


def _quoted(value: JsonValue) -> str:
    is_plain = not isinstance(value, str) or re.fullmatch("[a-z0-9_-]+", value)
    return str(value) if is_plain else f'"{shortened(str(value))}"'
