"""Publishing a version of the site keeps all others."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.site import ROOT

from docs.make_versions import write_versions


@pytest.fixture
def remote(tmp_path: Path) -> str:
    folder = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", folder], check=True)
    return folder.as_uri()


def publish(remote: str, label: str, text: str, folder: Path) -> tuple[str, Path]:
    """Publish a site of one page, and return the output and the complete site."""
    built, clone = folder / f"built-{text}", folder / f"clone-{text}"
    built.mkdir()
    (built / "index.html").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [ROOT / ".ci" / "publish-site", remote, built, label, clone],
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, clone


def versions(site: Path) -> list[str]:
    listed: list[str] = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    return listed


def test_a_release_stays_when_main_is_published_again(remote: str, tmp_path: Path) -> None:
    publish(remote, "main", "one", tmp_path)
    publish(remote, "v0.1.0", "two", tmp_path)
    _, site = publish(remote, "main", "three", tmp_path)
    assert versions(site) == ["v0.1.0", "main"]
    assert (site / "main" / "index.html").read_text(encoding="utf-8") == "three"
    assert (site / "v0.1.0" / "index.html").read_text(encoding="utf-8") == "two"


def test_versions_are_listed_with_the_newest_release_first(tmp_path: Path) -> None:
    for label in ("0.9", "main", "0.10", "0.10.1"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "index.html").touch()
    write_versions(tmp_path)
    assert versions(tmp_path) == ["0.10.1", "0.10", "0.9", "main"]
    assert "url=0.10.1/" in (tmp_path / "index.html").read_text(encoding="utf-8")
