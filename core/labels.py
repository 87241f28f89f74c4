"""Labels of tenants: short texts by key, such as `tier=gold`, for lists, metrics and people.

Labels are checked where they come in: the command line, the API and the tenant source. A key is
lower case, so `tier` and `Tier` cannot both exist. A value is any printable text, because the
platform chooses it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenantcron.core.errors import UsageError
from tenantcron.core.words import shortened

MOST_LABELS = 32
LONGEST_VALUE = 100
KEY_PATTERN = r"[a-z](?:[a-z0-9_./-]{0,61}[a-z0-9])?"
KEY_EXPECTED = (
    "a label key: a-z first, then a-z, 0-9 or _ . / -, a letter or digit last, at most 63 "
    "characters"
)
VALUE_EXPECTED = f"1 to {LONGEST_VALUE} printable characters without spaces around them"

_KEY = re.compile(KEY_PATTERN)
_REMOVES = "-"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """Selects tenants that have a label, with any value if none is named."""

    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """Labels to set and keys to remove; others stay."""

    values: Mapping[str, str]
    removed: frozenset[str] = frozenset()

    def apply_to(self, labels: Labels) -> dict[str, str]:
        """Return the labels after the change; a UsageError if there are too many."""
        kept = {key: value for key, value in labels.items() if key not in self.removed}
        changed = {**kept, **self.values}
        if len(changed) > MOST_LABELS:
            raise UsageError(_too_many(len(changed)))
        return changed


def label_problems(labels: Mapping[str, object]) -> list[str]:
    """Return all problems of the labels, one sentence each."""
    too_many = [] if len(labels) <= MOST_LABELS else [_too_many(len(labels))]
    return too_many + _entry_problems(labels)


def _entry_problems(labels: Mapping[str, object]) -> list[str]:
    problems = []
    for key, value in labels.items():
        if _KEY.fullmatch(key) is None:
            problems.append(f"label {shortened(key)!a} is not {KEY_EXPECTED}")
        if not isinstance(value, str):
            problems.append(f"label {shortened(key)!a} must have a text as its value")
        elif not _is_value(value):
            problems.append(f"label {shortened(key)!a} must have {VALUE_EXPECTED} as its value")
    return problems


def checked_changes(given: Mapping[str, str | None]) -> LabelChanges:
    """Check changes by key, with None for a key to remove; a UsageError names all problems."""
    values = {key: value for key, value in given.items() if value is not None}
    removed = {key: "removed" for key in given if key not in values}
    if problems := _entry_problems({**values, **removed}):
        raise UsageError("; ".join(problems))
    return LabelChanges(values, frozenset(removed))


def read_changes(texts: Sequence[str], *, removing: bool = True) -> LabelChanges:
    """Parse KEY=VALUE, and KEY- to remove a label; a UsageError names the problem."""
    given: dict[str, str | None] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        removes = removing and not equals and key.endswith(_REMOVES)
        if not equals and not removes:
            expected = "KEY=VALUE, or KEY- to remove it" if removing else "KEY=VALUE"
            raise UsageError(f"label {shortened(text)!a} is not {expected}")
        key = key.removesuffix(_REMOVES) if removes else key
        if key in given:
            raise UsageError(f"label {shortened(key)!a} is given twice")
        given[key] = None if removes else value
    return checked_changes(given)


def read_filter(text: str) -> LabelFilter:
    """Parse KEY or KEY=VALUE; a UsageError names the problem."""
    key, equals, value = text.partition("=")
    if _KEY.fullmatch(key) is None:
        raise UsageError(f"label {shortened(key)!a} is not {KEY_EXPECTED}")
    if equals and not _is_value(value):
        raise UsageError(f"label {shortened(key)!a} must have {VALUE_EXPECTED} as its value")
    return LabelFilter(key, value if equals else None)


def is_label_key(text: str) -> bool:
    """Whether the text may be the key of a label."""
    return _KEY.fullmatch(text) is not None


def labels_in_words(labels: Labels) -> str:
    """Return labels in one line, by key."""
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _is_value(text: str) -> bool:
    return 0 < len(text) <= LONGEST_VALUE and text.isprintable() and text == text.strip()


def _too_many(number: int) -> str:
    return f"{number} labels are too many: a tenant has at most {MOST_LABELS}"
