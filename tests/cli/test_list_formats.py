"""Lists as CSV and YAML."""

import csv
import io
import json
import shlex
from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML
from support.database import TEMPLATE, Server
from support.fleet import NIGHTLY, Shell, manifest

from tenantcron.cli.formats.csv_rows import CsvRows
from tenantcron.cli.formats.yaml_text import as_yaml

LISTS = {
    "execution list": "executions",
    "task list": "tasks",
    "schedule list": "schedules",
    "tenant list": "tenants",
    "history acme": "audit_records",
    "token list": "tokens",
    "webhook list": "webhooks",
    "keys list": "keys",
}


@pytest.fixture(scope="module")
def shell(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("lists")
    text = manifest("acme", {"nightly": NIGHTLY, "report": NIGHTLY})
    (folder / "acme.yaml").write_text(text, encoding="utf-8")
    with server.database(TEMPLATE) as url:
        shell = Shell(folder, url)
        assert shell("apply-manifest", ".", "--create-tenants").code == 0
        assert shell("schedule", "trigger", "acme/nightly").code == 0
        assert shell("token", "create", "ci", "--role", "viewer", "--actor", '=a,"b"').code == 0
        yield shell


@pytest.mark.parametrize(("command", "key"), LISTS.items())
def test_csv_has_a_header_and_the_rows_of_json(shell: Shell, command: str, key: str) -> None:
    items = json.loads(shell(*command.split(), "--format", "json").out)[key]
    called = shell(*command.split(), "--format", "csv")

    header, *rows = list(csv.reader(io.StringIO(called.out, newline="")))
    assert called.code == 0
    assert len(rows) == len(items)
    for item in items:
        assert set(item) <= {column.partition(".")[0] for column in header}
    assert all(len(row) == len(header) for row in rows)


@pytest.mark.parametrize(("command", "key"), LISTS.items())
def test_yaml_is_the_same_document_as_json(shell: Shell, command: str, key: str) -> None:
    document = json.loads(shell(*command.split(), "--format", "json").out)
    called = shell(*command.split(), "--format", "yaml")

    loaded = YAML(typ="safe", pure=True).load(called.out)
    assert loaded == document
    assert key in document


@pytest.mark.parametrize(
    "command",
    ["schedule show acme/nightly", "why acme/nightly", "health", "tenant show acme", "limits"],
)
def test_other_commands_have_yaml_but_no_csv(shell: Shell, command: str) -> None:
    shown = shell(*command.split(), "--format", "yaml").out
    refused = shell(*command.split(), "--format", "csv")

    assert isinstance(YAML(typ="safe", pure=True).load(shown), dict)
    assert refused.code == 2
    assert "use one of text, json, yaml" in refused.err


def test_csv_quotes_text_and_neutralises_formulas(shell: Shell) -> None:
    shown = shell("token", "list", "--format", "csv").out

    assert '"\'=a,""b"""' in shown
    assert shown.count("\r\n") == 2


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe(text: str) -> None:
    stream = io.StringIO()
    rows = CsvRows(stream, None)
    rows.row({"text": text, "number": -1, "nothing": None, "list": [1]})

    (_, row) = csv.reader(io.StringIO(stream.getvalue(), newline=""))
    assert row == [f"'{text}", "-1", "", "[1]"]


@pytest.mark.parametrize(
    "text",
    ["no", "On", "~", "", "1:30", "010", "1e3", "2026-12-01", "null", "a: b", "- x", "#x", "é\n"],
)
def test_yaml_keeps_text_as_text_in_version_1_1_and_1_2(text: str) -> None:
    shown = as_yaml({"key": text, text: 1})
    for version in ((1, 1), (1, 2)):
        yaml = YAML(typ="safe", pure=True)
        yaml.version = version
        assert yaml.load(shown) == {"key": text, text: 1}


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("plan .", {"at", "policies", "tenants", "summary"}),
        ("apply-manifest .", {"at", "policies", "tenants", "summary"}),
        ("next --manifest .", {"tenants"}),
        ("next --after 2026-01-01 '0 2 * * *'", {"expression", "timezone", "fires"}),
        ("next '0 2 * *'", {"expression", "error"}),
    ],
)
def test_plans_and_timetables_have_yaml(shell: Shell, command: str, keys: set[str]) -> None:
    arguments = shlex.split(command)
    document = json.loads(shell(*arguments, "--format", "json").out)
    loaded = YAML(typ="safe", pure=True).load(shell(*arguments, "--format", "yaml").out)

    assert keys <= set(loaded)
    assert loaded.keys() == document.keys()
    assert loaded | {"at": None} == document | {"at": None}
