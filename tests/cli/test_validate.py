"""`tenantcron validate`: exit codes, and no database or network access."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import tenantcron
from support.manifests import GOOD, MISTAKES

from tenantcron.cli.main import main

GOOD_ONE = "sagas: [{name: a, trigger: 'scheduled:a:0 2 * * *'}]\n"
WARNED = "sagas: [{name: a, trigger: 'scheduled:a:0 2 13 * fri'}]\n"
WRONG = "sagas: [{name: a, trigger: 'scheduled:a:*/5 * * * *'}]\n"


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "strict", "code"),
    [
        (GOOD_ONE, False, 0),
        (GOOD_ONE, True, 0),
        (WARNED, False, 0),
        (WARNED, True, 1),
        (WRONG, False, 1),
        (WRONG, True, 1),
    ],
)
@pytest.mark.parametrize("output", ["text", "json", "github", "sarif"])
def test_the_exit_code_depends_on_the_findings(
    tmp_path: Path, text: str, strict: bool, code: int, output: str
) -> None:
    file = written(tmp_path, "acme.yaml", text)
    options = ["--strict"] if strict else []
    assert main(["validate", "--format", output, *options, str(file)]) == code


def test_the_examples_pass_and_the_mistakes_do_not() -> None:
    run = tenantcron("validate", "--strict", GOOD)
    policy = "policy: examples/manifests/tenantcron.toml\n"
    assert (run.returncode, run.stdout) == (0, "6 manifests checked: all good\n" + policy)
    assert tenantcron("validate", MISTAKES).returncode == 1


def test_a_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    run = tenantcron("validate", "none.yaml", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "error: none.yaml: no such file\n"


def test_an_unreadable_policy_is_a_usage_error(tmp_path: Path) -> None:
    written(tmp_path, "acme.yaml", GOOD_ONE)
    run = tenantcron("validate", "--policy", "none.toml", "acme.yaml", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: none.toml: the policy cannot be read")
    written(tmp_path, "tenantcron.toml", "[policy]\nextra = 1\n")
    run = tenantcron("validate", "acme.yaml", cwd=tmp_path)
    assert run.returncode == 2
    assert "policy.extra: TC101 `policy` has no key `extra`" in run.stderr


def test_the_given_policy_overrides_the_one_in_the_folder(tmp_path: Path) -> None:
    file = written(tmp_path, "acme.yaml", WRONG)
    written(tmp_path, "tenantcron.toml", "[policy]\nminimum_interval = '5m'\n")
    strict = written(tmp_path, "strict/tenantcron.toml", "[policy]\nminimum_interval = '1h'\n")
    assert main(["validate", str(file)]) == 0
    assert main(["validate", "--policy", str(strict), str(file)]) == 1


def test_the_tenant_can_be_given(tmp_path: Path) -> None:
    file = written(tmp_path, "Manifest.yaml", GOOD_ONE)
    assert main(["validate", str(file)]) == 1
    assert main(["validate", "--tenant", "acme", str(file)]) == 0
    other = written(tmp_path, "other.yaml", "tenant: umbrella\n" + GOOD_ONE)
    assert main(["validate", "--tenant", "acme", str(other)]) == 1


def test_a_dash_reads_standard_input_and_uses_the_policy_of_the_folder(tmp_path: Path) -> None:
    text = "tenant: acme\n" + WRONG
    run = tenantcron("validate", "-", cwd=tmp_path, stdin=text)
    assert run.returncode == 1
    assert " --> <stdin>:2:28 (interval-below-floor)\n" in run.stdout
    assert "2 | sagas: [{name: a, trigger: 'scheduled:a:*/5 * * * *'}]\n" in run.stdout
    assert run.stdout.endswith("1 manifest checked: 1 error, 0 warnings\n")

    written(tmp_path, "tenantcron.toml", "[policy]\nminimum_interval = '5m'\n")
    run = tenantcron("validate", "-", cwd=tmp_path, stdin=text)
    assert run.stdout == "1 manifest checked: all good\npolicy: tenantcron.toml\n"


def test_standard_input_has_no_file_name_to_take_the_tenant_from(tmp_path: Path) -> None:
    run = tenantcron("validate", "-", cwd=tmp_path, stdin=GOOD_ONE)
    assert run.returncode == 1
    assert "error[TC113] the manifest has no tenant" in run.stdout
    run = tenantcron("validate", "--tenant", "acme", "-", cwd=tmp_path, stdin=GOOD_ONE)
    assert (run.returncode, run.stdout) == (0, "1 manifest checked: all good\n")
    run = tenantcron("validate", "--tenant", "Acme", "-", cwd=tmp_path, stdin=GOOD_ONE)
    assert run.returncode == 2


def test_standard_input_and_files_are_checked_together(tmp_path: Path) -> None:
    written(tmp_path, "acme.yaml", GOOD_ONE)
    text = json.dumps({"tenant": "acme", "sagas": []}, indent="\t")
    run = tenantcron("validate", "--format", "json", ".", "-", cwd=tmp_path, stdin=text)
    report = json.loads(run.stdout)
    (found,) = report["diagnostics"]
    assert (report["files"], found["code"], found["file"]) == (2, "TC501", "acme.yaml")
    assert found["message"] == "tenant `acme` is declared in <stdin> too"


def test_folders_are_searched_and_hidden_ones_are_not(tmp_path: Path) -> None:
    written(tmp_path, "a/b/acme.yml", GOOD_ONE)
    written(tmp_path, "umbrella.json", '{"sagas": []}')
    written(tmp_path, ".github/workflows/ci.yaml", "on: push\n")
    written(tmp_path, "notes.txt", "no manifest")
    run = tenantcron("validate", ".", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, "2 manifests checked: all good\n")


def test_two_manifests_for_one_tenant_fail_at_the_second(tmp_path: Path) -> None:
    written(tmp_path, "one.yaml", "tenant: acme\n" + GOOD_ONE)
    written(tmp_path, "two.yaml", "tenant: acme\n" + GOOD_ONE)
    run = tenantcron("validate", "--format", "json", ".", cwd=tmp_path)
    report = json.loads(run.stdout)
    assert run.returncode == 1
    assert (report["files"], report["errors"]) == (2, 1)
    (found,) = report["diagnostics"]
    assert (found["code"], found["file"], found["line"], found["column"]) == (
        "TC501", "two.yaml", 1, 9,
    )  # fmt: skip
    assert found["message"] == "tenant `acme` is declared in one.yaml too"
    assert "to one file" in found["hint"]


def test_running_twice_gives_the_same_bytes() -> None:
    for output in ("text", "json"):
        first, second = (
            tenantcron("validate", "--format", output, MISTAKES, env={"PYTHONHASHSEED": seed})
            for seed in ("1", "2")
        )
        assert first.stdout == second.stdout


def test_findings_are_sorted_by_file_and_position() -> None:
    run = tenantcron("validate", "--format", "json", MISTAKES)
    found = [
        (diagnostic["file"], diagnostic["line"], diagnostic["column"], diagnostic["code"])
        for diagnostic in json.loads(run.stdout)["diagnostics"]
    ]
    assert found == sorted(found)
    assert len(found) > 40


HEAVY = (
    "sqlalchemy", "psycopg", "httpx", "fastapi", "pydantic", "jsonschema", "rich", "typer",
    "structlog", "asyncio", "socket", "ssl", "dataclasses", "inspect",
)  # fmt: skip


@pytest.mark.parametrize("output", ["text", "json", "github"])
@pytest.mark.parametrize(
    ("needed", "paths", "code"),
    [
        # On Python 3.13 the imports of croniter load `inspect`, by importlib.resources.
        ("croniter", [GOOD], 0),
        # One of the mistakes is a kind of target that a plug-in could add.
        ("croniter, importlib.metadata", [GOOD, MISTAKES], 1),
    ],
    ids=["good", "mistakes"],
)
def test_validate_imports_no_library_that_it_does_not_need(
    output: str, needed: str, paths: list[Path], code: int
) -> None:
    arguments = ["validate", "--format", output, *map(str, paths)]
    watching = (
        f"import sys, {needed}\n"
        "needed = set(sys.modules)\n"
        "from tenantcron.cli.main import main\n"
        f"code = main({arguments!r})\n"
        f"loaded = sorted(set({HEAVY!r}) & set(sys.modules) - needed)\n"
        "print(code, loaded, file=sys.stderr)\n"
    )
    run = tenantcron_script(watching)
    assert run.splitlines()[-1] == f"{code} []"


def test_no_connection_is_ever_opened() -> None:
    watching = (
        "import sys\n"
        "def refuse(event, _):\n"
        "    if event.startswith('socket.'):\n"
        "        raise SystemExit(f'a connection: {event}')\n"
        "sys.addaudithook(refuse)\n"
        "from tenantcron.cli.main import main\n"
        "for output in ('text', 'json', 'github', 'sarif'):\n"
        f"    code = main(['validate', '--format', output, {str(GOOD)!r}, {str(MISTAKES)!r}])\n"
        "print('checked', code, file=sys.stderr)\n"
    )
    assert tenantcron_script(watching).splitlines()[-1] == "checked 1"


def tenantcron_script(text: str) -> str:
    """Run a script that calls the command line, and return its stderr."""
    run = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, encoding="utf-8", check=False
    )
    return run.stderr


def test_the_applied_policy_files_are_shown(tmp_path: Path) -> None:
    written(tmp_path, "acme.yaml", GOOD_ONE)
    written(tmp_path, "own/beta.yaml", GOOD_ONE)
    assert "policy:" not in tenantcron("validate", ".", cwd=tmp_path).stdout
    written(tmp_path, "tenantcron.toml", "[policy]\n")
    written(tmp_path, "own/tenantcron.toml", "[policy]\n")

    shown = tenantcron("validate", ".", cwd=tmp_path).stdout
    printed = json.loads(tenantcron("validate", "--format", "json", ".", cwd=tmp_path).stdout)
    given = tenantcron("validate", "--policy", "tenantcron.toml", ".", cwd=tmp_path).stdout

    assert shown.splitlines()[-1] == "policy: own/tenantcron.toml, tenantcron.toml"
    assert printed["policies"] == ["own/tenantcron.toml", "tenantcron.toml"]
    assert given.splitlines()[-1] == "policy: tenantcron.toml"
