"""Manifests in an editor: the real YAML language server with the schema that we print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.language_server import LanguageServer, language_server
from support.node import node_program

from tenantcron.manifests.editor_schema import editor_schema

HEAD = '# yaml-language-server: $schema=manifest.schema.json\nversion: "1.0"\ntenant: acme\n'
SCHEDULED = f"{HEAD}sagas:\n  - name: a\n    trigger:\n      scheduled:\n"
TARGET = f"{HEAD}sagas:\n  - name: a\n    trigger: scheduled:nightly\n    target:\n"
ADD_ONE = "add a timetable: one of cron, every, daily, weekly, monthly, once, preset"
WRITE_AUTH = (
    "write none, execution_token, {bearer: {secret: {env: NAME}}}, {hmac: {secret: {env: NAME}}}, "
    "{oauth2_client_credentials: {token_url: URL, client_id: ID, secret: {env: NAME}}} "
    "or {mtls: {certificate: {file: PATH}, key: {file: PATH}}}"
)
# A place to fill in, with its default.
PLACE = re.compile(r"\$\{\d:([^}]*)\}")


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    """Start one server for all tests; its start takes longer than all of them."""
    folder = tmp_path_factory.mktemp("editor")
    schema = editor_schema("manifest", ["hourly", "nightly"])
    (folder / "manifest.schema.json").write_text(schema, encoding="utf-8")
    with language_server(node_program(".bin/yaml-language-server"), folder) as server:
        yield server


@dataclass(frozen=True)
class Marked:
    """A manifest, and the messages in the editor, each with the line that is marked."""

    name: str
    text: str
    messages: tuple[tuple[int, str], ...]


def in_schedule(name: str, line: str, message: str) -> Marked:
    """Return a schedule whose second line has a mistake."""
    return Marked(name, f'{SCHEDULED}        cron: "0 2 * * *"\n        {line}\n', ((9, message),))


MARKED = (
    Marked("nothing is wrong", f'{SCHEDULED}        daily: {{at: "02:00"}}\n', ()),
    Marked(
        "a misspelt timetable",
        f'{SCHEDULED}        dayly: {{at: "02:00"}}\n',
        ((7, ADD_ONE), (8, "Property dayly is not allowed.")),
    ),
    in_schedule(
        "two timetables", 'daily: {at: "02:00"}', "`cron` is a timetable, too: keep one of the two"
    ),
    Marked("no timetable", f"{SCHEDULED}        timezone: UTC\n", ((7, ADD_ONE),)),
    Marked(
        "a misspelt timetable with a name",
        f'{HEAD}schedules:\n  nightly: {{dayly: {{at: "02:00"}}}}\nsagas: []\n',
        ((5, "Property dayly is not allowed."), (5, ADD_ONE)),
    ),
    Marked(
        "two timetables with a name",
        f'{HEAD}schedules:\n  nightly: {{cron: "0 2 * * *", every: 1h}}\nsagas: []\n',
        ((5, "`cron` is a timetable, too: keep one of the two"),),
    ),
    Marked(
        "a timetable that is a number",
        f"{HEAD}schedules:\n  nightly: 3\nsagas: []\n",
        ((5, f"must be text, or a mapping with {ADD_ONE.partition('one of ')[2]}"),),
    ),
    in_schedule(
        "a time zone", "timezone: Europe/Londn", "must be an IANA time zone such as Europe/London"
    ),
    in_schedule(
        "a number that is too small",
        "auto_pause_after: 2",
        "must be 0 (never) or a number from 3 to 100",
    ),
    in_schedule(
        "a number that is a word",
        "auto_pause_after: many",
        "must be 0 (never) or a number from 3 to 100",
    ),
    in_schedule(
        "a duration without a unit",
        "timeout: 300",
        "must be a duration such as 90s, 15m, 1h30m or 7d",
    ),
    in_schedule(
        "a number in place of a mapping",
        "retry: 3",
        "must be a mapping with max_attempts, backoff, max_backoff",
    ),
    Marked(
        "a word in place of a list",
        f'{SCHEDULED}        weekly: {{on: Monday, at: "02:00"}}\n',
        ((8, "must be a list of mon, tue, wed, thu, fri, sat, sun"),),
    ),
    Marked(
        "a day that no month has",
        f'{SCHEDULED}        monthly: {{day: 32, at: "02:00"}}\n',
        ((8, "must be a day from 1 to 31, or last"),),
    ),
    Marked(
        "a trigger beside its key",
        f'{HEAD}sagas:\n  - name: a\n    trigger:\n    scheduled:\n      cron: "0 2 * * *"\n',
        ((6, "must be text, or a mapping with scheduled, api, webhook, event"),),
    ),
    Marked(
        "a kind of authentication",
        f'{TARGET}      http: {{url: "https://billing.internal/run", auth: bearer}}\n',
        ((8, WRITE_AUTH),),
    ),
)


@pytest.mark.parametrize("case", MARKED, ids=lambda case: case.name)
def test_a_mistake_has_a_readable_message(editor: LanguageServer, case: Marked) -> None:
    assert sorted(editor.messages(case.text)) == list(case.messages)


@dataclass(frozen=True)
class Offered:
    """A manifest with the cursor at `|`, and some words that an editor offers there."""

    name: str
    text: str
    words: set[str]


OFFERED = (
    Offered(
        "time zones",
        f"{SCHEDULED}        timezone: |\n",
        {"Europe/London", "America/New_York", "UTC"},
    ),
    Offered("presets of the policy", f"{SCHEDULED}        preset: |\n", {"hourly", "nightly"}),
    Offered(
        "triggers with presets",
        f"{HEAD}sagas:\n  - name: a\n    trigger: |\n",
        {"scheduled:hourly", "scheduled:nightly"},
    ),
    Offered("keys of a schedule", f"{SCHEDULED}        |\n", {"cron", "daily", "overlap"}),
    Offered("values", f"{SCHEDULED}        overlap: |\n", {"skip", "queue", "allow"}),
    Offered("days", f"{SCHEDULED}        monthly:\n          day: |\n", {"last"}),
    Offered("ways to authenticate", f"{TARGET}      http:\n        auth: |\n", {"execution_token"}),
)


@pytest.mark.parametrize("case", OFFERED, ids=lambda case: case.name)
def test_an_editor_completes(editor: LanguageServer, case: Offered) -> None:
    offered = editor.at("completion", case.text)["items"]
    assert case.words <= {item["label"] for item in offered}


def test_a_snippet_is_a_saga_that_the_editor_accepts(editor: LanguageServer) -> None:
    offered = editor.at("completion", f"{HEAD}sagas:\n  - |\n")["items"]
    snippets = {item["label"]: item["insertText"] for item in offered}
    assert snippets["Saga"] == "name: $1\n  trigger: $2"
    for timetable in ("cron", "daily", "weekly", "monthly"):
        inserted = PLACE.sub(r"\1", snippets[f"saga: {timetable}"]).replace("\n", "\n  ")
        assert editor.messages(f"{HEAD}sagas:\n  - {inserted}\n") == []
        assert f"      {timetable}:" in inserted


def test_the_keys_of_a_snippet_are_those_that_are_required(editor: LanguageServer) -> None:
    offered = editor.at("completion", f"{SCHEDULED}        |\n")["items"]
    snippets = {item["label"]: item["insertText"] for item in offered}
    assert snippets["daily"] == "daily:\n  at: "
    assert snippets["monthly"] == "monthly:\n  day: $1\n  at: $2"


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (f"{SCHEDULED}        over|lap: skip\n", "the previous execution is still running"),
        (f'{SCHEDULED}        cr|on: "0 2 * * *"\n', "minute, hour, day of month, month, weekday"),
        (f'{SCHEDULED}        dai|ly: {{at: "02:00"}}\n', "Once a day"),
        (f"{HEAD}sagas:\n  - name: a\n    trig|ger: scheduled:nightly\n", "Short form"),
    ],
)
def test_a_key_shows_its_description(editor: LanguageServer, text: str, description: str) -> None:
    assert description in editor.at("hover", text)["contents"]["value"]
