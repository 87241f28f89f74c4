"""The documentation is true: what it shows is what comes out, what it lists is what there is.

Some parts of the pages are made from the code, and a page is right if making it again changes
nothing. `python tests/test_docs.py` writes them anew; read the difference before it is committed.

- In a `console` block, what stands behind `$ tenantcron …` is that command's output, without blanks
  at the ends of lines. Commands run in a copy of `examples/`, on an embedded server of that folder,
  one after the other. `<!-- not run: reason -->` before a block leaves it as it is.
- `<!-- moves with the clock -->` before such a block: moments and distances (`in 3 h 20 min`) count
  from now, so they are those of the run that was looked at. All else must be what comes out, and
  where an output has a moment the page has one, too (`settled` is the rule).
- `<!-- moves with the clock; definitions cut -->`: and each `definition` of a JSON answer is shown
  as `{…}`.
- A block behind `<!-- file: NAME -->` is put into that copy under that name when its turn comes. A
  later block of the same name is the file after an edit.
- An `sql` block behind `<!-- by hand -->` is run on the embedded server, as its superuser.
- A table behind `<!-- fields: SCHEMA DEFINITION -->` lists the keys of one part of a JSON Schema.
- A table behind `<!-- checked: KIND -->` has questions on the left and computed answers on the
  right; `ANSWERS` has the kinds.
- A table behind `<!-- listed: KIND -->` has a row for each of what there is, and no other; `LISTS`
  has the kinds. Cells behind the listed ones are words for people, and must be there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from ruamel.yaml import YAML
from support.database import Server

from tenantcron.cli.main import COMMANDS
from tenantcron.core.durations import format_duration, parse_duration
from tenantcron.core.settings import PREFIX, Settings, load_settings
from tenantcron.cron.analysis import shortest_gap
from tenantcron.cron.errors import CronError
from tenantcron.cron.occurrences import upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone
from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.policy import default_policy
from tenantcron.manifests.translate import every
from tenantcron.reconciler.refusals import REFUSALS
from tenantcron.store import tables
from tenantcron.store.embedded import FOLDER, ServerUse
from tenantcron.store.targets import Target

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "bench" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# This page is made of mistakes, of which some cannot even be read; it has tests of its own.
MISTAKES = ROOT / "docs" / "diagnostics.md"

BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n+)?^```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TABLE = re.compile(
    r"<!-- (?P<kind>fields|checked|listed): (?P<what>[^\n]*?) -->\n+(?P<table>(?:\|.*\n)+)"
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)

# Every other command opens a database.
WITHOUT_DATABASE = {"validate", "next", "explain", "schema"}
COMMAND = re.compile(r"^\$ (?P<command>tenantcron .*)$", re.MULTILINE)
MOVES = "moves with the clock"
CUT = "; definitions cut"
DEFINITION = re.compile(r'^( *)"definition": \{\n.*?^\1\}', re.MULTILINE | re.DOTALL)
BY_HAND = "by hand"
# `Tue 2026-12-01 02:00 GMT`, `2026-12-01 02:00`, `2026-12-01T02:00:00+00:00`; `in 14 d 20 h`.
MOMENT = re.compile(
    r"(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?"
    r"(?: [A-Z]{3,4}\b|[+-]\d\d:\d\d)?"
)
DISTANCE = re.compile(r"\bin \d+ (?:d|h|min|s)\b(?: \d+ (?:h|min)\b)?")
# What would make a command act for a pipeline, or on somebody's database.
FOREIGN = ("TENANTCRON_", "GITHUB_", "GITLAB_", "CI_")

Json = dict[str, Any]


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


READERS: dict[str, Callable[[str], object]] = {
    "yaml": YAML(typ="safe").load,
    "toml": tomllib.loads,
    "json": json.loads,
}


def made_parts(page: Path) -> list[str]:
    """Return the parts of a page that are made from the code."""
    text = page.read_text(encoding="utf-8")
    tables = [match[0] for match in TABLE.finditer(text)]
    return tables + [match[0] for match in BLOCK.finditer(text) if match["language"] == "console"]


def links(page: Path) -> list[str]:
    """Return the links of a page that stay inside the repository."""
    targets = (match["target"] for match in LINK.finditer(page.read_text(encoding="utf-8")))
    return [target for target in targets if "://" not in target]


def data_blocks(page: Path) -> list[tuple[str, str]]:
    """Return the blocks of a page that are data, with their language."""
    if page == MISTAKES:
        return []
    blocks = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [(match["language"], match["body"]) for match in blocks if match["language"] in READERS]


def yaml_blocks(page: Path) -> Iterator[Json]:
    for language, body in data_blocks(page):
        if language == "yaml":
            yield YAML(typ="safe").load(body)


def pipeline_commands(page: Path) -> Iterator[str]:
    """Yield our commands in the pipelines that a page shows."""
    for data in yaml_blocks(page):
        for text in strings(data):
            yield from re.findall(r"^tenantcron .*$", text, re.MULTILINE)


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def each_page_with(part: Callable[[Path], object]) -> pytest.MarkDecorator:
    """Take the pages that have such a part, so that no test has nothing to look at."""
    return pytest.mark.parametrize("page", [page for page in PAGES if part(page)], ids=page_id)


@pytest.fixture
def folder(run_folder: Path) -> Path:
    """A folder to be made, in which an embedded server can live, too."""
    return Path(tempfile.mkdtemp(dir=run_folder)) / "examples"


@each_page_with(made_parts)
def test_what_a_page_shows_is_what_comes_out(page: Path, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert refreshed(text, folder) == text


@each_page_with(links)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not leads_somewhere(page, target)] == []


@each_page_with(data_blocks)
def test_every_block_of_data_can_be_read(page: Path) -> None:
    for language, body in data_blocks(page):
        assert READERS[language](body)


@each_page_with(lambda page: list(pipeline_commands(page)))
def test_the_commands_in_pipelines_work(page: Path, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    examples(folder)
    for match in BLOCK.finditer(text):
        _put(match, folder)
    with served(pipeline_commands(page), folder):
        for command in pipeline_commands(page):
            done = run(command, folder)
            assert done.returncode == 0, f"{command}\n{done.stdout}"


def test_the_pages_on_pipelines_show_github_and_gitlab_commands() -> None:
    commands = list(pipeline_commands(ROOT / "docs" / "ci.md"))
    assert any("--format github" in command for command in commands)
    assert any("--format sarif" in command for command in commands)
    assert len(commands) >= 3


def test_workflows_of_github_actions_have_what_github_asks_for() -> None:
    workflows = [data for page in PAGES for data in yaml_blocks(page) if "jobs" in data]
    assert len(workflows) >= 3
    for workflow in workflows:
        assert workflow["on"]
        for job in workflow["jobs"].values():
            assert job["runs-on"]
            assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_the_configuration_of_pre_commit_names_the_hook_that_exists() -> None:
    hooks = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    configurations = [data for page in PAGES for data in yaml_blocks(page) if "repos" in data]
    assert len(configurations) >= 2
    for configuration in configurations:
        used = [hook["id"] for repo in configuration["repos"] for hook in repo["hooks"]]
        assert used == [hook["id"] for hook in hooks]


def test_the_map_of_the_readme_shows_every_folder_and_no_other() -> None:
    text = README.read_text(encoding="utf-8")
    shown = re.findall(r"^\| \[`(\w+)/`\]\(", text, re.MULTILINE)
    assert sorted(shown) == sorted(root_folders())


def test_the_language_page_shows_every_part_of_the_schema() -> None:
    text = (ROOT / "docs" / "manifest.md").read_text(encoding="utf-8")
    shown = {match["what"] for match in TABLE.finditer(text) if match["kind"] == "fields"}
    definitions = schema("manifest")["$defs"]
    # An entry of `schedules:` is a schedule without a name, which the page says in words.
    nameless = dict(definitions["Scheduled"]["properties"])
    del nameless["name"]
    assert definitions["Timing"]["properties"] == nameless
    parts = set(definitions) - {"Timing", "JsonValue"}
    assert shown == {"manifest", *(f"manifest {part}" for part in parts)}


def test_the_readme_shows_every_field_of_the_policy() -> None:
    assert "<!-- fields: policy -->" in README.read_text(encoding="utf-8")


def test_no_page_promises_a_command_that_does_not_exist() -> None:
    for page in PAGES:
        used = re.findall(r"^(?:\$ )?tenantcron (\w[\w-]*)", page.read_text("utf-8"), re.MULTILINE)
        assert set(used) <= set(COMMANDS), page


def test_what_is_listed_is_listed_where_people_look_for_it() -> None:
    places = {"refusals": "apply.md", "tables": "database.md", "settings": "settings.md"}
    assert places.keys() == LISTS.keys()
    for what, page in places.items():
        assert f"<!-- listed: {what} -->" in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_settings_file_of_the_page_sets_all_settings_as_the_environment_does(
    tmp_path: Path,
) -> None:
    body = marked("settings.md", "settings")
    (tmp_path / "tenantcron.toml").write_text(body, encoding="utf-8")
    written = tomllib.loads(body)["settings"]
    environment = {PREFIX + key.upper(): str(value) for key, value in written.items()}
    assert {f"`{key}`" for key in written} == {row[0] for row in listed_settings()}
    from_environment = load_settings(environment, tmp_path / "elsewhere")
    assert load_settings({}, tmp_path) == replace(from_environment, folder=tmp_path)


def test_the_rights_on_the_page_are_what_the_commands_need(server: Server, folder: Path) -> None:
    examples(folder)
    with server.database("template1") as url:
        name = urlsplit(url).path.removeprefix("/")
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(marked("database.md", "rights").replace("product", name))
        as_deploy, as_plan = as_role("tenantcron_deploy", url), as_role("tenantcron_plan", url)
        apply = "tenantcron apply-manifest manifests/acme.yaml --create-tenants"
        assert run("tenantcron migrate", folder, as_deploy).returncode == 0
        assert run(apply, folder, as_deploy).returncode == 0
        assert run("tenantcron plan manifests/acme.yaml", folder, as_plan).returncode == 0
        assert run("tenantcron schedule list", folder, as_plan).returncode == 0
        refused = run(apply.replace("acme", "northwind"), folder, as_plan)
        assert (refused.returncode, "permission denied" in refused.stdout) == (1, True)


def test_moments_settle_and_nothing_else_does() -> None:
    shown = "  nightly  Tue 2026-12-01 02:00 GMT  2026-12-01 02:00  in 14 d 20 h\n"
    later = "  nightly  Thu 2027-07-01 02:00 BST  2027-07-01 01:00  in 5 min\n"
    assert settled(shown) == settled(later)
    assert settled('"at": "2026-12-01T02:00:00+00:00"') == settled(
        '"at": "2027-07-01T01:00:00.5+01:00"'
    )
    assert settled(shown) != settled(shown.replace("nightly", "weekly"))
    assert settled(shown) != settled(shown.replace("in 14 d 20 h", "paused"))
    assert (
        settled("0 2 1 * * in Europe/London, version 3") == "0 2 1 * * in Europe/London, version 3"
    )


def as_role(role: str, url: str) -> dict[str, str]:
    parts = urlsplit(url)
    return {"TENANTCRON_DATABASE_URL": urlunsplit(parts._replace(netloc=f"{role}@"))}


def marked(page: str, mark: str) -> str:
    """Return the block of a page that stands behind a mark."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (body,) = (match["body"] for match in BLOCK.finditer(text) if match["mark"] == mark)
    return body


def test_decisions_are_short_numbered_and_have_the_same_parts() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(decision.name[:4]) for decision in decisions]
    assert numbers == list(range(1, len(decisions) + 1))
    for decision in decisions:
        text = decision.read_text(encoding="utf-8")
        assert len(text.splitlines()) < 60, decision
        for part in ("Status", "Context", "Decision", "Consequences"):
            assert re.search(rf"^(## )?\**{part}\b", text, re.MULTILINE), (decision, part)


def refreshed(text: str, folder: Path) -> str:
    """Return a page with everything that is made from the code made anew."""
    examples(folder)
    text = TABLE.sub(_table, text)
    with served(COMMAND.findall(text), folder) as database:
        return BLOCK.sub(lambda match: _block(match, folder, database), text)


def examples(folder: Path) -> None:
    """Make the folder that a page's commands run in."""
    shutil.copytree(ROOT / "examples", folder)


@contextmanager
def served(commands: Iterable[str], folder: Path) -> Iterator[Target | None]:
    """Keep the folder's embedded server running between commands, if one of them needs it."""
    if all(command.split()[1] in WITHOUT_DATABASE for command in commands):
        yield None
        return
    use = ServerUse(folder / FOLDER)
    try:
        yield use.join()
    finally:
        use.leave()


def run(
    command: str, folder: Path, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command as a shell would, with both of its outputs in one."""
    own_commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    environment = kept | {"PATH": own_commands, "NO_COLOR": "1", "COLUMNS": "80"}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment | (variables or {}),
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def settled(text: str) -> str:
    """Take out what moves with the clock: moments, and how far ahead they lie."""
    return DISTANCE.sub("in DISTANCE", MOMENT.sub("MOMENT", text))


def _block(match: re.Match[str], folder: Path, database: Target | None) -> str:
    """Do what a block asks for, and write it with what comes out now."""
    mark = match["mark"] or ""
    _put(match, folder)
    if match["language"] == "sql" and mark == BY_HAND:
        assert database, "a page without commands on a database has none to change by hand"
        with psycopg.connect(**database.parameters) as connection:
            connection.execute(match["body"])
    if match["language"] != "console" or mark.startswith("not run: "):
        return match[0]
    shown = _outputs(match["body"], folder)
    if mark.endswith(CUT):
        shown = DEFINITION.sub(r'\1"definition": {…}', shown)
    if mark.startswith(MOVES) and settled(shown) == settled(match["body"]):
        return match[0]
    return match[0].replace(match["body"], shown)


def _put(match: re.Match[str], folder: Path) -> None:
    """Write the file that a block shows."""
    if (match["mark"] or "").startswith("file: "):
        file = folder / match["mark"].removeprefix("file: ")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(match["body"], encoding="utf-8")


def _outputs(body: str, folder: Path) -> str:
    """Run the commands of a block and return it with what they say."""
    commands = [line for line in body.splitlines() if line.startswith("$ ")]
    foreign = [command for command in commands if not command.startswith("$ tenantcron ")]
    assert commands, f"no command in a console block:\n{body}"
    assert not foreign, f"not ours, so use a sh block: {foreign}"
    shown = (f"{command}\n{run(command[2:], folder).stdout}" for command in commands)
    return "".join(f"{line.rstrip()}\n" for text in shown for line in text.splitlines())


def _table(match: re.Match[str]) -> str:
    """Write a table with what is true now."""
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
    """Yield key, what it takes, its default and its meaning, as the schema has them."""
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
    """Say what holds for an absent key."""
    if "default" in field:
        return "`{}`".format(json.dumps(field["default"]).strip('"'))
    inner = any("default" in part for part in referred.get("properties", {}).values())
    return "see there" if inner else "none"


def takes(root: Json, field: Json) -> str:
    """Say what a key takes, in words."""
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
    """Return where a definition is described; the policy's page borrows from the manifest's."""
    page = "docs/manifest.md" if root is schema("policy") else ""
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
        branches = [takes(root, branch) for branch in entry["anyOf"]]
        return f"names, each with {' or '.join(branches)}"
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
    """How cells of a table follow from the first `asks` cells of their row."""

    def __init__(self, asks: int, find: Callable[..., list[str]]) -> None:
        self.asks = asks
        self._find = find

    def complete(self, cells: list[str]) -> list[str]:
        """Return the row as it should be; cells behind the answers are words for people."""
        questions, rest = cells[: self.asks], cells[self.asks :]
        plain = [question.replace("`", "") for question in questions]
        answers = self._find(*plain, count=rest[0].count(",") + 1)
        return [*questions, *answers, *rest[len(answers) :]]


def _fires(expression: str, place: str, after: str, *, count: int) -> list[str]:
    moment = datetime.fromisoformat(after).replace(tzinfo=zone(place)).astimezone(UTC)
    found = islice(upcoming(parse(expression), zone(place), moment), count)
    local = (one.astimezone(zone(place)) for one in found)
    return [", ".join(_shown(one, moment.year) for one in local)]


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
    """Say whether the limits are where the table has them, from both sides."""
    least, most = parse_duration(low), parse_duration(high)
    second = timedelta(seconds=1)
    inside, outside = [least, most], [most + second, *([least - second] if least else [])]
    accepted = [_is_in_range(key, format_duration(value)) for value in inside]
    refused = [not _is_in_range(key, format_duration(value)) for value in outside]
    return ["TC305" if all(accepted + refused) else "the limits are others"]


def _is_in_range(key: str, value: str) -> bool:
    setting = {"retry": {key: value}} if key.endswith("backoff") else {key: value}
    scheduled = {"once": "2099-01-01T00:00:00Z", **setting}
    saga = {"name": "x", "trigger": {"scheduled": scheduled}}
    content = json.dumps({"tenant": "x", "sagas": [saga]}).encode()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    checked = check_manifest(content, "json", default_policy(), TenantHints(), now)
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
    """Yield a row for each thing that there is, with the words that the page has for it."""
    words = {cells[0]: cells for cells in rows}
    for known in LISTS[what]():
        cells = [*known, *words.get(known[0], [])[len(known) :]]
        assert len(cells) == columns and all(cells), f"write a row for {known[0]}"  # noqa: PT018
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
    """All but `folder`, which is the working folder, and `schedules`, which are no one value."""
    settings = [field for field in fields_of(Settings) if field.name not in ("folder", "schedules")]
    return [
        [f"`{field.name}`", f"`{PREFIX}{field.name.upper()}`", shown_default(field.default)]
        for field in settings
    ]


def shown_default(default: object) -> str:
    if default is None:
        return "none"
    return f"`{format_duration(default) if isinstance(default, timedelta) else default}`"


LISTS: dict[str, Callable[[], list[list[str]]]] = {
    "refusals": listed_refusals,
    "tables": listed_tables,
    "settings": listed_settings,
}


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return False
    return not anchor or anchor in anchors(file)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    titles = [match["title"] for match in HEADING.finditer(page.read_text(encoding="utf-8"))]
    words = [re.sub(r"[^\w\s-]", "", title.lower()) for title in titles]
    return {word.strip().replace(" ", "-") for word in words}


def root_folders() -> set[str]:
    """Return the folders that a clone has, hidden ones left out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (Path(name) for name in listed.split("\0") if name)
    folders = {path.parts[0] for path in paths if len(path.parts) > 1 and (ROOT / path).exists()}
    return {folder for folder in folders if not folder.startswith(".")}


def main() -> None:
    """Write every page anew."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch:
            page.write_text(refreshed(text, Path(scratch) / "examples"), encoding="utf-8")


if __name__ == "__main__":
    main()
