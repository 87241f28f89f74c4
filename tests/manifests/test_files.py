"""Manifests on disk: which files are read, each once, and checks across files."""

from pathlib import Path

import pytest
from support.manifests import NOW

from tenantcron.core.errors import UsageError
from tenantcron.manifests.diagnostics import json_pointer
from tenantcron.manifests.files import Policies, TenantsSeen, find_files, read_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.yaml", "a.yml", "c.json", "notes.txt", "tenantcron.toml", "deep/er/d.yaml",
        ".github/workflows/ci.yaml", ".hidden.yaml", "deep/.git/e.yaml",
    ):  # fmt: skip
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("" if file.suffix == ".toml" else '{"sagas": []}', encoding="utf-8")
    (tmp_path / "folder.yaml").mkdir()
    return tmp_path


def names(files: list[Path], folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in files]


def test_folders_are_searched_for_manifests_in_a_fixed_order(folder: Path) -> None:
    assert names(find_files([folder]), folder) == ["a.yml", "b.yaml", "c.json", "deep/er/d.yaml"]


def test_hidden_folders_can_be_passed_explicitly(folder: Path) -> None:
    found = find_files([folder / ".github", folder / ".hidden.yaml"])
    assert names(found, folder) == [".github/workflows/ci.yaml", ".hidden.yaml"]


def test_a_file_with_any_name_can_be_passed_explicitly(folder: Path) -> None:
    assert names(find_files([folder / "notes.txt"]), folder) == ["notes.txt"]


def test_each_file_is_read_once_even_if_passed_under_several_paths(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    given = [Path("b.yaml"), folder / "b.yaml", Path("deep/../b.yaml"), Path("./b.yaml")]
    assert find_files(given) == [Path("b.yaml")]
    assert len(find_files([folder, Path("b.yaml"), Path()])) == 4


def test_a_missing_path_is_a_usage_error(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml: no such file"):
        find_files([folder, folder / "none.yaml"])


def test_an_unreadable_file_is_a_usage_error(tmp_path: Path) -> None:
    # A folder instead of a file without permissions: tests may run as root.
    with pytest.raises(UsageError, match="cannot be read"):
        list(read_files([tmp_path], Policies(None), None))


def test_a_file_that_is_too_large_is_reported_with_its_real_size(tmp_path: Path) -> None:
    file = tmp_path / "acme.yaml"
    file.write_bytes(b"#" * 3_000_000)
    (read,) = read_files([file], Policies(None), None)
    checked = read.check(NOW).checked
    (problem,) = checked.problems
    assert problem.message == "the file has 3,000,000 bytes; the limit is 1,048,576"


def test_json_files_are_read_as_json_and_others_as_yaml(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.yaml"]
    for file in files:
        file.write_text("sagas: []", encoding="utf-8")
    checked = [file.check(NOW) for file in read_files(files, Policies(None), None)]
    assert [[problem.code for problem in file.checked.problems] for file in checked] == [
        ["TC003"],
        [],
    ]


def test_a_file_may_have_manifest_before_its_suffix(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("acme.manifest.json", "globex.manifest.yaml")]
    for file in files:
        file.write_text('{"sagas": []}', encoding="utf-8")
    checked = [file.check(NOW).checked for file in read_files(files, Policies(None), None)]
    assert [(found.tenant, found.problems) for found in checked] == [("acme", ()), ("globex", ())]


def test_every_further_manifest_of_a_tenant_is_reported(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml", "d.yaml")]
    for file, tenant in zip(files, ("x", "y", "x", "x"), strict=True):
        file.write_text(f"tenant: {tenant}\nsagas: []\n", encoding="utf-8")
    seen = TenantsSeen()
    found = [seen.add(file.check(NOW)) for file in read_files(files, Policies(None), None)]
    reported = [diagnostic.file[-6:] for diagnostic in found if diagnostic]
    assert reported == ["c.yaml", "d.yaml"]
    assert found[2] is not None
    assert (found[2].problem.span.line, found[2].problem.span.column) == (1, 9)


def test_pointers_have_the_form_of_rfc_6901() -> None:
    assert json_pointer(()) == ""
    assert json_pointer(("sagas", 0, "a/b", "c~d", "")) == "/sagas/0/a~1b/c~0d/"


def test_file_suffixes_are_case_insensitive(tmp_path: Path) -> None:
    (tmp_path / "acme.YAML").write_text("sagas: []", encoding="utf-8")
    assert [file.name for file in find_files([tmp_path])] == ["acme.YAML"]


def test_a_folder_without_manifests_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    with pytest.raises(UsageError, match="found no manifests"):
        find_files([tmp_path])


@pytest.mark.parametrize("tenant", ["Acme", "pg_x", "public", "a" * 49, ""])
def test_an_invalid_tenant_option_is_a_usage_error(folder: Path, tenant: str) -> None:
    with pytest.raises(UsageError, match="--tenant"):
        list(read_files(find_files([folder]), Policies(None), tenant))
