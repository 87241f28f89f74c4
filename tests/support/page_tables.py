"""The generated tables of the pages.

- `fields: SCHEMA DEFINITION` lists the keys of one part of a JSON Schema.
- `checked: KIND` has inputs on the left and computed results on the right; `ANSWERS` has the kinds.
- `listed: KIND` has exactly one row for each existing item; `LISTS` has the kinds.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields as fields_of
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice

from support.pages import ROOT, Json

from tenantcron.actor.grants import Role
from tenantcron.cli.exit_codes import EXIT_CODES, ExitCodes
from tenantcron.core.durations import format_duration, parse_duration
from tenantcron.core.settings import PREFIX, Settings
from tenantcron.cron.analysis import shortest_gap
from tenantcron.cron.errors import CronError
from tenantcron.cron.occurrences import upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone
from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.language.translate import every
from tenantcron.manifests.policy import default_policy
from tenantcron.reconciler.refusals import REFUSALS
from tenantcron.scheduler.metrics.counts import ENDS
from tenantcron.scheduler.metrics.prometheus import METRICS, NO_REASON
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.service.responses.problem_types import PROBLEMS
from tenantcron.service.roles import ALLOWED, Permission
from tenantcron.store.rows.executions import State
from tenantcron.store.schema import tables


def made_table(match: re.Match[str]) -> str:
    """Regenerate a table."""
    head, line, *rows = match["table"].splitlines()
    if match["kind"] == "fields":
        rows = [_row(cells) for cells in fields(*match["what"].split())]
    elif match["kind"] == "listed":
        rows = [
            _row(cells) for cells in listed(match["what"], map(_cells, rows), head.count("|") - 1)
        ]
    else:
        answer, questions = ANSWERS[match["what"]], [_cells(row) for row in rows]
        rows = [_row(answer.complete(cells)) for cells in questions]
    return match[0].replace(match["table"], "\n".join([head, line, *rows]) + "\n")


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


@cache
def schema(name: str) -> Json:
    text = (ROOT / "manifests" / f"{name}.schema.json").read_text(encoding="utf-8")
    loaded: Json = json.loads(text)
    return loaded


def fields(name: str, definition: str | None = None) -> Iterator[list[str]]:
    """Yield key, accepted values, default and meaning, from the schema."""
    root = schema(name)
    part = root["$defs"][definition] if definition else root
    for key, field in part["properties"].items():
        referred = root["$defs"].get(field.get("$ref", "").rpartition("/")[2], {})
        required = key in part.get("required", ())
        meaning = field.get("description") or referred.get("description", "")
        yield [
            f"`{key}`",
            takes(root, field).replace("*", r"\*"),
            "required" if required else default(field, referred),
            meaning,
        ]


def default(field: Json, referred: Json) -> str:
    """Return the default of an absent key."""
    if "default" in field:
        return "`{}`".format(json.dumps(field["default"]).strip('"'))
    inner = any("default" in part for part in referred.get("properties", {}).values())
    return "see there" if inner else "none"


def takes(root: Json, field: Json) -> str:
    """Describe the accepted values of a key."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "anything" if name == "JsonValue" else f"[a mapping]({place(root, name)})"
    if "x-expects" in field:
        return str(field["x-expects"])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(takes(root, branch) for branch in field["anyOf"])
    return TYPES[field["type"]](root, field)


def place(root: Json, definition: str) -> str:
    """Return where a definition is described; the policy's page links to the manifest's."""
    is_borrowed = root is schema("policy") and definition in schema("manifest")["$defs"]
    page = "manifest.md" if is_borrowed else ""
    # An entry of `schedules:` and a preset are schedules without a name.
    return f"{page}#{definition.lower().replace('timing', 'scheduled')}"


def _number(_: Json, field: Json) -> str:
    return f"a number from {field['minimum']} to {field['maximum']}"


def _text(_: Json, field: Json) -> str:
    return f"text of at most {field['maxLength']} characters" if "maxLength" in field else "text"


def _list(root: Json, field: Json) -> str:
    item = takes(root, field["items"])
    if "enum" in field["items"]:
        return f"a list, each entry one of {item}"
    if "$ref" in field["items"]:
        return f"a list of {item.replace('a mapping', 'mappings')}"
    return f"a list, each entry {item}"


def _mapping(root: Json, field: Json) -> str:
    for entry in field.get("patternProperties", {}).values():
        return f"names, each with {takes(root, entry)}"
    return "a mapping"


TYPES: dict[str, Callable[[Json, Json], str]] = {
    "boolean": lambda *_: "true or false",
    "integer": _number,
    "number": _number,
    "string": _text,
    "array": _list,
    "object": _mapping,
}


class Answer:
    """Computes cells of a table from the first `asks` cells of their row."""

    def __init__(self, asks: int, find: Callable[..., list[str]]) -> None:
        self.asks = asks
        self._find = find

    def complete(self, cells: list[str]) -> list[str]:
        """Return the corrected row; cells after the results are free text."""
        questions, rest = cells[: self.asks], cells[self.asks :]
        plain = [question.replace("`", "") for question in questions]
        answers = self._find(*plain, count=rest[0].count(",") + 1)
        return [*questions, *answers, *rest[len(answers) :]]


def _fires(expression: str, place: str, after: str, *, count: int) -> list[str]:
    moment = datetime.fromisoformat(after).replace(tzinfo=zone(place)).astimezone(UTC)
    found = islice(upcoming(parse(expression), zone(place), moment), count)
    local = (occurrence.astimezone(zone(place)) for occurrence in found)
    return [", ".join(_shown(occurrence, moment.year) for occurrence in local)]


def _shown(moment: datetime, year: int) -> str:
    return f"{moment:%d %b %H:%M %Z}" if moment.year == year else f"{moment:%d %b %Y %H:%M %Z}"


def _gap(expression: str, **_: int) -> list[str]:
    gap = shortest_gap(parse(expression))
    return [format_duration(gap) if gap else "none"]


def _refused(expression: str, **_: int) -> list[str]:
    try:
        parse(expression)
    except CronError as error:
        return [error.message, error.hint or ""]
    return ["is understood", ""]


def _translated(interval: str, **_: int) -> list[str]:
    return [f"`{every(parse_duration(interval), zone('UTC'))}`"]


def _limits(key: str, low: str, high: str, **_: int) -> list[str]:
    """Return the code for values beyond the limits; the limits must match the table."""
    least, most = parse_duration(low), parse_duration(high)
    second = timedelta(seconds=1)
    inside, outside = [least, most], [most + second, *([least - second] if least else [])]
    accepted = [_is_in_range(key, format_duration(value)) for value in inside]
    refused = [not _is_in_range(key, format_duration(value)) for value in outside]
    assert all(accepted + refused), f"{key} has other limits than {low} and {high}"
    return ["TC305"]


def _is_in_range(key: str, value: str) -> bool:
    # The first wait must not exceed the longest one, so use the shortest.
    retry = {"retry": {"backoff": "0s", key: value}}
    setting = retry if key.endswith("backoff") else {key: value}
    scheduled = {"once": "2099-01-01T00:00:00Z", **setting}
    saga = {"name": "x", "trigger": {"scheduled": scheduled}}
    content = json.dumps({"tenant": "x", "sagas": [saga]}).encode()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    # The limits of the language; a platform may allow less.
    policy = default_policy()._replace(max_timeout=timedelta(days=1))
    checked = check_manifest(content, "json", policy, TenantHints(), now)
    codes = {problem.code for problem in checked.problems}
    assert codes <= {"TC305"}, checked.problems
    return not codes


ANSWERS = {
    "fires": Answer(3, _fires),
    "gaps": Answer(1, _gap),
    "refused": Answer(1, _refused),
    "translations": Answer(1, _translated),
    "limits": Answer(3, _limits),
}


def listed(what: str, rows: Iterable[list[str]], columns: int) -> Iterator[list[str]]:
    """Yield a row for each existing item, with the free text of the page."""
    words = {cells[0]: cells for cells in rows}
    for known in LISTS[what]():
        cells = [*known, *words.get(known[0], [])[len(known) :]]
        assert len(cells) == columns and all(cells), f"write a row for {known[0]}"  # noqa: PT018 -- one message for both
        yield cells


def listed_refusals() -> list[list[str]]:
    return [
        [f"`{rule.code}`", rule.name, rule.what, rule.why, rule.fix] for rule in REFUSALS.values()
    ]


def listed_tables() -> list[list[str]]:
    control = [f"`{name}`" for name in tables.control.tables]
    per_tenant = [f"`tenant_ID.{table.name}`" for table in tables.per_tenant.tables.values()]
    return [[name] for name in (*control, *per_tenant)]


def listed_settings() -> list[list[str]]:
    """All settings except `folder`, the working folder, and `schedules`, which are several."""
    settings = [field for field in fields_of(Settings) if field.name not in ("folder", "schedules")]
    return [
        [f"`{field.name}`", f"`{PREFIX}{field.name.upper()}`", shown_default(field.default)]
        for field in settings
    ]


def listed_metrics() -> list[list[str]]:
    return [
        [
            f"`{metric.full_name}`",
            metric.type.value,
            ", ".join(metric.labels) or "none",
            metric.help,
        ]
        for metric in METRICS
    ]


def listed_reasons() -> list[list[str]]:
    # A code that ends nothing is of an execution that is retried.
    states = {code: [state for state, reason in ENDS if reason is code] for code in ReasonCode}
    rows = [[f"`{code}`", ", ".join(states[code]) or State.RETRYING] for code in ReasonCode]
    return [[f"`{NO_REASON}`", State.SUCCEEDED], *rows]


def shown_default(default: object) -> str:
    if default is None or default == ():
        return "none"
    return f"`{format_duration(default) if isinstance(default, timedelta) else default}`"


def listed_problems() -> list[list[str]]:
    return [
        [f"`{code}`", str(kind.status.value), kind.rule.name, kind.rule.what]
        for code, kind in PROBLEMS.items()
    ]


def listed_roles() -> list[list[str]]:
    return [
        [
            f"`{role}`",
            *("yes" if permission in ALLOWED[role] else "no" for permission in Permission),
        ]
        for role in Role
    ]


def listed_exit_codes() -> list[list[str]]:
    """A row for each meaning of the codes, with the commands that share it."""
    commands: dict[ExitCodes, list[str]] = {}
    for command, codes in EXIT_CODES.items():
        commands.setdefault(codes, []).append(f"`{command}`")
    return [
        [", ".join(names), codes.success, codes.failure, codes.misuse]
        for codes, names in commands.items()
    ]


LISTS: dict[str, Callable[[], list[list[str]]]] = {
    "exit-codes": listed_exit_codes,
    "refusals": listed_refusals,
    "tables": listed_tables,
    "settings": listed_settings,
    "problems": listed_problems,
    "roles": listed_roles,
    "metrics": listed_metrics,
    "reasons": listed_reasons,
}
