"""The check of a manifest: its tenant, ignored sections, order, and limits on time and memory."""

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
class TenantCase:
    """The tenant of the manifest, the caller and the file's name, and the result."""

    declared: str | None
    asked_for: str | None
    file_stem: str | None
    tenant: str | None
    codes: tuple[str, ...] = ()


TENANT_CASES = (
    TenantCase("acme", None, "other", "acme"),
    TenantCase("acme", "acme", "other", "acme"),
    TenantCase("acme", "umbrella", "acme", "acme", ("TC114",)),
    TenantCase(None, "umbrella", "acme", "umbrella"),
    TenantCase(None, None, "acme", "acme"),
    TenantCase(None, None, "Acme", None, ("TC113",)),
    TenantCase(None, None, "acme.prod", None, ("TC113",)),
    TenantCase(None, "Acme Inc", "acme", None, ("TC113",)),
    TenantCase(None, None, None, None, ("TC113",)),
    TenantCase("a" * 48, None, None, "a" * 48),
    TenantCase("a" * 49, None, "acme", "acme", ("TC107",)),
    TenantCase("acme\\n", None, "acme", "acme", ("TC107",)),
    TenantCase("", None, "acme", "acme", ("TC107",)),
    TenantCase("public", None, "acme", None, ("TC108",)),
    TenantCase("information_schema", None, "acme", None, ("TC108",)),
    TenantCase("tenantcron", None, "acme", None, ("TC108",)),
    TenantCase("pg_catalog", None, "acme", None, ("TC108",)),
    TenantCase("pg_", None, "acme", None, ("TC108",)),
    TenantCase("pg", None, "acme", "pg"),
    TenantCase("pgx", None, "acme", "pgx"),
    TenantCase("publics", None, "acme", "publics"),
    TenantCase(None, None, "public", None, ("TC108",)),
    TenantCase(None, "pg_temp", "acme", None, ("TC108",)),
)


@pytest.mark.parametrize("case", TENANT_CASES, ids=str)
def test_the_tenant_of_a_manifest(case: TenantCase) -> None:
    line = "" if case.declared is None else f'tenant: "{case.declared}"\n'
    checked = check(f"{line}sagas: []\n", asked_for=case.asked_for, file_stem=case.file_stem)
    assert codes(checked) == list(case.codes)
    assert checked.tenant == case.tenant
    assert (checked.desired is None) == bool(case.codes)


def test_a_document_that_is_not_a_mapping_is_one_mistake_for_any_file_name() -> None:
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


def test_ambiguous_values_in_sections_of_other_tools_are_ignored() -> None:
    checked = check(FOREIGN)
    assert checked.problems == ()
    assert checked.desired is not None


def test_ambiguous_values_in_our_sections_are_reported() -> None:
    checked = check(
        "sagas:\n- name: a\n  trigger:\n    scheduled:\n      every: 1h\n"
        "      payload: {1: a, b: .inf, c: yes}\n"
    )
    assert codes(checked) == ["TC011", "TC012", "TC013"]


def test_a_warning_about_a_value_with_an_error_is_dropped() -> None:
    text = "sagas:\n- {name: a, trigger: {scheduled: {every: 1h, catch_up_window: 1_000}}}"
    assert codes(check(text)) == ["TC106"]


def test_a_manifest_with_a_warning_can_be_used() -> None:
    checked = check("sagas: [{name: a, trigger: 'scheduled:a:0 2 13 * fri'}]")
    assert codes(checked) == ["TC204"]
    assert checked.desired is not None


def test_a_manifest_with_an_error_cannot_be_used() -> None:
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
    return [result.document.data for result in loaded if result.document]


@settings(max_examples=200)
@given(data=damaged(data_of_examples()))
def test_problems_of_damaged_manifests_are_sorted_and_stable(data: JsonValue) -> None:
    checked = check_data(data)
    keys = [(problem.span, problem.code) for problem in checked.problems]
    assert keys == sorted(keys)
    assert check_data(data) == checked


@dataclass(frozen=True)
class Flood:
    """A file under 1 MiB that would take a careless checker minutes."""

    name: str
    text: str


def scheduled(*entries: str) -> str:
    return "".join(
        f"- {{name: s{i}, trigger: {{scheduled: {e}}}}}\n" for i, e in enumerate(entries)
    )


# The limit has a resolution of one second: after two, the process is killed.
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
def test_a_flood_of_mistakes_is_reported_within_two_seconds(
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


def test_fifty_problems_of_one_kind_are_reported_and_that_there_are_more() -> None:
    keys = ", ".join(f"catchup{n}: 1" for n in range(200))
    checked = check("sagas:\n" + scheduled("{every: 1h, " + keys + "}"))
    messages = [problem.message for problem in checked.problems if problem.code == "TC101"]
    assert len(messages) == 51
    assert messages[-1] == "further problems of this kind are not listed"
