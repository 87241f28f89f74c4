"""`tenantcron init` writes a project that validates, and never overwrites a file."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from support.fleet import Shell
from support.pages import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    done = Shell(tmp_path)("init", "my shop")
    assert (done.code, done.err) == (0, "")
    return tmp_path / "my shop"


def test_the_new_project_validates_without_findings(project: Path) -> None:
    checked = Shell(project)("validate", "--strict", "manifests/")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.startswith("1 manifest checked: all good")


def test_every_saga_has_a_handler(project: Path) -> None:
    manifest = YAML(typ="safe").load(project / "manifests" / "acme.yaml")
    source = (project / "handlers.py").read_text(encoding="utf-8")
    assert all(f'@saga("{saga["name"]}")' in source for saga in manifest["sagas"])


def test_the_hook_is_the_one_of_this_repository(project: Path) -> None:
    [repository] = YAML(typ="safe").load(project / ".pre-commit-config.yaml")["repos"]
    [hook] = repository["hooks"]
    [published] = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
    assert hook["entry"] == f"{published['entry']} {published['args'][0]}"
    for key in ("id", "name", "files", "pass_filenames"):
        assert hook[key] == published[key]


def test_the_output_names_the_next_commands(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    elsewhere, here = shell("init", "my shop"), shell("init")
    assert "  cd 'my shop'\n  tenantcron dev " in elsewhere.out
    assert "cd " not in here.out
    assert all(len(line) <= 80 for line in elsewhere.out.splitlines())


def test_nothing_is_written_if_one_file_exists(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("mine")
    (tmp_path / "README.md").write_text("mine")

    refused = Shell(tmp_path)("init")

    assert (refused.code, refused.out) == (2, "")
    assert "already has handlers.py, README.md" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "handlers.py"]
    assert (tmp_path / "handlers.py").read_text() == "mine"


def test_a_folder_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("a file")
    refused = Shell(tmp_path)("init", "shop")
    assert refused.code == 2
    assert "cannot be written" in refused.err
