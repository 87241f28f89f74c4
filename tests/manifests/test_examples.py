"""The examples: every form of the language works, every mistake is found, codes are documented."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.manifests import ACROSS_FILES, GOOD, MISTAKES, ROOT, Mistake, codes, mistakes

from tenantcron.manifests.files import (
    CheckedFile,
    Policies,
    TenantsSeen,
    find_files,
    read_files,
)
from tenantcron.manifests.language.rules import RULES, Rule, Severity

ALL_RULES = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


def checked(folder: Path) -> list[CheckedFile]:
    now = datetime.now(UTC)
    return [file.check(now) for file in read_files(find_files([folder]), Policies(None), None)]


def test_valid_examples_have_neither_errors_nor_warnings() -> None:
    files = checked(GOOD)
    assert len(files) >= 6
    assert [problem for file in files for problem in file.checked.problems] == []
    assert all(file.checked.desired for file in files)


def test_valid_examples_show_every_form_of_timetable() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in find_files([GOOD]))
    for form in ("cron:", "every:", "daily:", "weekly:", "monthly:", "once:", "preset:", "last"):
        assert form in text
    schedules = [
        schedule
        for file in checked(GOOD)
        if file.checked.desired
        for schedule in file.checked.desired.schedules
    ]
    expressions = [schedule.timing.cron for schedule in schedules]
    for mark in ("@every ", "@at ", "L", "W", "#", "jan", "mon"):
        assert any(mark in expression for expression in expressions), mark
    assert any(schedule.target for schedule in schedules)


def test_a_manifest_of_an_existing_platform_works_unchanged_with_a_preset() -> None:
    (file,) = [file for file in checked(GOOD) if file.path.name == "meridian.json"]
    assert file.checked.tenant == "meridian"
    assert file.checked.desired is not None
    (schedule,) = file.checked.desired.schedules
    assert (schedule.name, schedule.saga) == ("monthly_billing", "generate_monthly_invoice")
    assert (schedule.timing.cron, schedule.timing.timezone) == ("0 2 1 * *", "Europe/London")


@pytest.mark.parametrize(
    "file",
    [file for folder in (GOOD, MISTAKES) for file in folder.rglob("*.yaml")],
    ids=lambda file: file.name,
)
def test_every_yaml_example_refers_editors_to_the_schema(file: Path) -> None:
    first = file.read_bytes().splitlines()[0].decode()
    mark, _, place = first.partition("$schema=")
    assert mark == "# yaml-language-server: "
    assert (file.parent / place).resolve() == ROOT / "manifests" / "manifest.schema.json"


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.code)
def test_an_example_of_a_mistake_has_only_that_mistake(mistake: Mistake) -> None:
    assert codes(mistake.check()) == [mistake.code]


def test_two_manifests_for_one_tenant_are_found_across_files() -> None:
    seen = TenantsSeen()
    files = checked(ACROSS_FILES["TC501"])
    found = [diagnostic for file in files if (diagnostic := seen.add(file)) is not None]
    assert [codes(file.checked) for file in files] == [[], []]
    (diagnostic,) = found
    assert diagnostic.problem.code == "TC501"
    assert diagnostic.file.endswith("metering.yaml")
    assert "billing.yaml" in diagnostic.problem.message


@ALL_RULES
def test_every_code_has_an_example(rule: Rule) -> None:
    assert rule.code in {mistake.code for mistake in mistakes()} | ACROSS_FILES.keys()


@ALL_RULES
def test_the_file_of_an_example_is_named_after_its_rule(rule: Rule) -> None:
    named = [file.name.removesuffix(file.suffix) for file in MISTAKES.glob(f"{rule.code}-*")]
    assert named in ([], [f"{rule.code}-{rule.name}"])


@ALL_RULES
def test_every_rule_has_what_why_and_fix_as_sentences(rule: Rule) -> None:
    for sentence in (rule.what, rule.why, rule.fix):
        assert sentence.endswith(".")
        assert len(sentence) > 15


def test_codes_and_names_are_unique_and_sorted() -> None:
    assert list(RULES) == sorted(RULES)
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
    assert {code[:3] for code in RULES} == {"TC0", "TC1", "TC2", "TC3", "TC4", "TC5"}


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")


def test_the_page_of_diagnostics_is_current(page: str) -> None:
    script = ROOT / "docs" / "make_diagnostics.py"
    run = subprocess.run([sys.executable, script], capture_output=True, check=True)
    assert run.stdout.decode() == page


@ALL_RULES
def test_the_page_of_diagnostics_has_every_code_with_an_example(rule: Rule, page: str) -> None:
    _, _, rest = page.partition(f"### {rule.code} {rule.name}\n")
    section, _, _ = rest.partition("\n###")
    assert rule.what in section
    assert rule.why in section
    assert rule.fix in section
    assert "**Example:**" in section


def test_five_different_mistakes_are_five_problems_at_the_right_positions() -> None:
    mistake = Mistake("five", (MISTAKES / "five-mistakes.yaml").read_bytes())
    found = [
        (problem.code, problem.span.line, problem.span.column, problem.span.end_column)
        for problem in mistake.check().problems
    ]
    assert found == [
        ("TC301", 9, 15, 29),
        ("TC205", 10, 19, 31),
        ("TC101", 11, 9, 16),
        ("TC206", 13, 14, 31),
        ("TC106", 17, 16, 22),
    ]


def test_warnings_are_the_rules_for_suspicious_but_valid_manifests() -> None:
    warnings = {rule.code for rule in RULES.values() if rule.severity is Severity.WARNING}
    assert warnings == {"TC013", "TC115", "TC203", "TC204", "TC208", "TC210", "TC411"}
