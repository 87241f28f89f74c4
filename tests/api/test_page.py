"""The examples in docs/api.md work in order."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.fleet import Shell
from support.pages import BLOCK, ROOT
from support.serve_process import serving

PAGE = ROOT / "docs" / "api.md"


def calls() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return [match["body"] for match in BLOCK.finditer(text) if match["mark"] == "called"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples are written for curl")
def test_the_examples_work_in_order(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder)
    shutil.copy(folder / "manifests" / "tenantcron.toml", folder)
    shell = Shell(folder, database_url)
    made = shell("token", "create", "docs", "--role", "admin", "--format", "json")
    with serving(shell) as (url, _):
        variables = {"SERVER": url, "TOKEN": json.loads(made.out)["token"], "PATH": "/usr/bin:/bin"}
        for call in calls():
            done = subprocess.run(
                ["bash", "-c", call],
                cwd=folder,
                env=variables,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (call, done.stdout, done.stderr)
            assert json.loads(done.stdout), call
    assert len(calls()) >= 7
