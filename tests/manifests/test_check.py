"""A manifest as a whole: whose it is, what is left alone, order, and bounds on time and space."""

import subprocess
import sys
from dataclasses import dataclass
from itertools import islice, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from support.manifests import GOOD, check, check_data, codes
from support.mutations import damaged

from tenantcron.core.values import JsonValue
from tenantcron.manifests.document import load
from tenantcron.manifests.files import find_files


@dataclass(frozen=True)
class Whose:
    """Who the manifest, the caller and the file's name say it is for, and what comes of it."""

    written: str | None
    asked_for: str | None
    file_stem: str | None
    tenant: str | None
    codes: tuple[str, ...] = ()


WHOSE = (
    Whose("acme", None, "other", "acme"),
    Whose("acme", "acme", "other", "acme"),
    Whose("acme", "umbrella", "acme", "acme", ("TC114",)),
    Whose(None, "umbrella", "acme", "umbrella"),
    Whose(None, None, "acme", "acme"),
    Whose(None, None, "Acme", None, ("TC113",)),
    Whose(None, None, "acme.prod", None, ("TC113",)),
    Whose(None, "Acme Inc", "acme", None, ("TC113",)),
    Whose(None, None, None, None, ("TC113",)),
    Whose("a" * 48, None, None, "a" * 48),
    Whose("a" * 49, None, "acme", "acme", ("TC107",)),
    Whose("acme\\n", None, "acme", "acme", ("TC107",)),
    Whose("", None, "acme", "acme", ("TC107",)),
    Whose("public", None, "acme", None, ("TC108",)),
    Whose("information_schema", None, "acme", None, ("TC108",)),
    Whose("tenantcron", None, "acme", None, ("TC108",)),
    Whose("pg_catalog", None, "acme", None, ("TC108",)),
    Whose("pg_", None, "acme", None, ("TC108",)),
    Whose("pg", None, "acme", "pg"),
    Whose("pgx", None, "acme", "pgx"),
    Whose("publics", None, "acme", "publics"),
    Whose(None, None, "public", None, ("TC108",)),
    Whose(None, "pg_temp", "acme", None, ("TC108",)),
)


@pytest.mark.parametrize("case", WHOSE, ids=str)
def test_whose_manifest_it_is(case: Whose) -> None:
    line = "" if case.written is None else f'tenant: "{case.written}"\n'
    checked = check(f"{line}sagas: []\n", asked_for=case.asked_for, file_stem=case.file_stem)
    assert codes(checked) == list(case.codes)
    assert checked.tenant == case.tenant
    assert (checked.desired is None) == bool(case.codes)


def test_a_document_that_is_no_mapping_is_one_mistake_whatever_its_file_is_called() -> None:
    assert codes(check("[]", file_stem="Not A Tenant")) == ["TC103"]


FOREIGN = """\
sagas:
  - name: a
    trigger: api:x
    steps: {1: yes, 2: 010, .inf: .nan, ~: no, [a]: 1_000}
    script: "x"
instruments:
  1: {on: off, precision: 0o17, at: 12:30:45}
  99999999999999999999: -.inf
x-notes: [yes, no, on, off, 1e999]
"""


def test_odd_values_in_sections_of_other_tools_are_none_of_our_business() -> None:
    checked = check(FOREIGN)
    assert checked.problems == ()
    assert checked.desired is not None


def test_odd_values_in_our_own_sections_are_told() -> None:
    checked = check(
        "sagas:\n- name: a\n  trigger:\n    scheduled:\n      every: 1h\n"
        "      payload: {1: a, b: .inf, c: yes}\n"
    )
    assert codes(checked) == ["TC011", "TC012", "TC013"]


def test_a_doubt_about_a_value_that_is_refused_anyway_is_not_told() -> None:
    text = "sagas:\n- {name: a, trigger: {scheduled: {every: 1h, catch_up_window: 1_000}}}"
    assert codes(check(text)) == ["TC106"]


def test_a_warning_does_not_keep_the_manifest_from_being_used() -> None:
    checked = check("sagas: [{name: a, trigger: 'scheduled:a:0 2 13 * fri'}]")
    assert codes(checked) == ["TC204"]
    assert checked.desired is not None


def test_an_error_does() -> None:
    assert check("sagas: [{name: a, trigger: 'scheduled:a:0 2 * *'}]").desired is None


def test_problems_come_in_the_order_of_the_text() -> None:
    text = (
        "schedules:\n  unused: '0 2 * * *'\nsagas:\n"
        "- {name: a, trigger: 'scheduled:b:x', target: {http: {url: 'http://c'}}}\n"
        "- {name: a, trigger: 'scheduled:none'}\n- {name: D, trigger: e}\n"
    )
    assert codes(check(text)) == ["TC210", "TC201", "TC402", "TC109", "TC206", "TC107", "TC112"]


def data_of_examples() -> list[JsonValue]:
    files = find_files([GOOD])
    loaded = [
        load(file.read_bytes(), syntax="json" if file.suffix == ".json" else "yaml")
        for file in files
    ]
    return [one.document.data for one in loaded if one.document]


@settings(max_examples=200)
@given(data=damaged(data_of_examples()))
def test_whatever_is_damaged_the_answer_is_sorted_and_stable(data: JsonValue) -> None:
    checked = check_data(data)
    keys = [(problem.span, problem.code) for problem in checked.problems]
    assert keys == sorted(keys)
    assert check_data(data) == checked


@dataclass(frozen=True)
class Flood:
    """A file under 1 MiB that makes a careless checker work for minutes."""

    name: str
    text: str


def scheduled(*entries: str) -> str:
    return "".join(
        f"- {{name: s{i}, trigger: {{scheduled: {e}}}}}\n" for i, e in enumerate(entries)
    )


# The processor counts whole seconds: what is not over in two is stopped.
CPU_SECONDS = 2

FLOODS = (
    Flood(
        "unknown keys",
        "sagas:\n" + scheduled("{" + ", ".join(f"catchup{n}: 1" for n in range(15_000)) + "}"),
    ),
    Flood("unknown sections", "sagas: []\n" + "".join(f"metadata{n}: 1\n" for n in range(15_000))),
    Flood(
        "unknown zones",
        "sagas:\n" + scheduled(*(f"{{every: 1h, timezone: Europe/Lon{n}}}" for n in range(1_500))),
    ),
    Flood(
        "unknown names",
        "schedules:\n"
        + "".join(f"  nightly{n}: '0 2 * * *'\n" for n in range(2_000))
        + "sagas:\n"
        + scheduled(*(f"{{preset: nigtly{n}x}}" for n in range(2_000))),
    ),
    Flood(
        "weekdays",
        "sagas:\n"
        + scheduled("{weekly: {on: [" + ", ".join(f"m{n}" for n in range(15_000)) + "]}}"),
    ),
    Flood(
        "placeholders", "sagas:\n" + scheduled("{payload: {a: '" + "{{firetim}}" * 20_000 + "'}}")
    ),
    Flood(
        "anagrams",
        "sagas:\n"
        + scheduled(
            "{"
            + ", ".join(f"{''.join(key)}: 1" for key in islice(permutations("catch_up"), 19_000))
            + "}"
        ),
    ),
    Flood("braces", "sagas:\n" + scheduled("{payload: {a: '" + "{" * 250_000 + "'}}")),
)


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.name)
@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_a_flood_of_mistakes_is_answered_within_two_seconds(
    flood: Flood, form: str, tmp_path: Path
) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(flood.text, encoding="utf-8")
    seconds = (CPU_SECONDS, CPU_SECONDS)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, {seconds})"
    command = "from tenantcron.cli.main import main; raise SystemExit(main())"
    arguments = [sys.executable, "-c", f"{limit}; {command}", "validate", "--format", form]

    answered = subprocess.run([*arguments, file], capture_output=True, check=False)

    assert answered.returncode == 1, answered.stderr[-200:]
    assert len(answered.stdout) < 200_000


def test_of_one_kind_of_mistake_fifty_are_told_and_that_there_are_more() -> None:
    keys = ", ".join(f"catchup{n}: 1" for n in range(200))
    checked = check("sagas:\n" + scheduled("{every: 1h, " + keys + "}"))
    told = [problem.message for problem in checked.problems if problem.code == "TC101"]
    assert len(told) == 51
    assert told[-1] == "more of the same kind from here on are not listed"
