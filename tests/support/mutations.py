"""Valid documents with random damage: keys removed or renamed, values replaced."""

from copy import deepcopy

from hypothesis import strategies as st

from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Pointer

# Common mistakes, edge cases of our rules, and values of every type.
_VALUES: tuple[JsonValue, ...] = (
    None, True, False, 0, 1, 1.0, 2, 3, 3.0, 31, 32, 100, 101, -1, 0.5, 20.0, 1e300,
    "", "1.0", "1", "true", "last", "first", "mon", "skip", "once", "POST", "GET", "critical",
    "15m", "1h30m", "30m1h", "m", "1 hour", "02:00", "2:00", "24:00", "02:60", "02:00\n",
    "acme", "acme\n", "Acme", "a" * 48, "a" * 49, "a" * 128, "a" * 129, "x" * 1024, "x" * 1025,
    "0 2 * * *", "scheduled:nightly", "https://billing.internal/", "*.internal", "http://localhost",
    "[::1]", "host:80",
    [], [[]], ["mon"], ["mon", "mon"], ["mon", 1], [1, True], [None], {}, {"a": 1},
    {"at": "02:00"}, {"on": [], "at": "02:00"}, {"day": 31.0, "at": "2:05"}, {"cron": "0 2 * * *"},
    {"cron": "0 2 * * *", "every": "1h"}, {"scheduled": {"every": "1h"}}, {"webhook": None},
    {"http": {"url": "https://x"}}, {"http": {"url": "https://x", "headers": {"A": "b"}}},
    {"max_attempts": 20}, {"max_attempts": 21}, {"backoff": "1s"},
)  # fmt: skip
_KEYS = (
    "name", "trigger", "scheduled", "sagas", "schedules", "tenant", "version", "cron", "every",
    "daily", "at", "on", "day", "retry", "payload", "http", "url", "headers", "presets", "x-notes",
    "saga", "Sagas", "nightly", "Nightly", "nightly\n", "instruments", "", "a" * 129,
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, good: list[JsonValue]) -> JsonValue:
    """Return one of the documents with a few changes."""
    data = deepcopy(draw(st.sampled_from(good)))
    for _ in range(draw(st.integers(1, 3))):
        data = _damage(draw, data)
    return data


def _damage(draw: st.DrawFn, data: JsonValue) -> JsonValue:
    *parents, last = draw(st.sampled_from(_places(data))) or ("",)
    value = deepcopy(draw(st.sampled_from(_VALUES)))
    if last == "":
        return value if draw(st.integers(0, 9)) == 0 else data
    parent = data
    for part in parents:
        parent = parent[part]  # type: ignore[index] # JSON of any shape
    if isinstance(parent, list):
        parent[int(last)] = value
    elif isinstance(parent, dict):
        _damage_entry(draw, parent, str(last), value)
    return data


def _damage_entry(
    draw: st.DrawFn, mapping: dict[str, JsonValue], key: str, value: JsonValue
) -> None:
    action = draw(st.sampled_from(("replace", "replace", "drop", "rename", "add")))
    if action == "replace":
        mapping[key] = value
    elif action == "drop":
        del mapping[key]
    elif action == "rename":
        mapping[draw(st.sampled_from(_KEYS))] = mapping.pop(key)
    else:
        mapping[draw(st.sampled_from(_KEYS))] = value


def _places(value: JsonValue, at: Pointer = ()) -> list[Pointer]:
    """Return the pointer of every value, the document itself included."""
    found = [at]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _places(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _places(item, (*at, index))
    return found
