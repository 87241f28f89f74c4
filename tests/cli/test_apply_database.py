"""The database of the commands: unreachable, refused, not migrated, or none."""

from pathlib import Path

import pytest
from support.database import GUARDED
from support.fleet import Shell, manifest, numbered

COMMANDS = (
    ["plan", "acme.yaml"],
    ["apply-manifest", "acme.yaml"],
    ["tenant", "list"],
    ["schedule", "list"],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "acme.yaml").write_text(manifest("acme", numbered(2)), encoding="utf-8")
    return tmp_path


def assert_one_clear_line(shell: Shell, words: str, *secrets: str) -> None:
    for command in COMMANDS:
        called = shell(*command)
        assert (called.code, called.out) == (2, "")
        assert called.err.startswith("error: ")
        assert words in called.err
        assert len(called.err.splitlines()) == 1
        for secret in secrets:
            assert secret not in called.err


def test_a_server_that_is_unreachable(folder: Path) -> None:
    shell = Shell(folder, "postgresql://maria:hunter2@127.0.0.1:1/tenants")

    assert_one_clear_line(shell, "cannot connect to maria@127.0.0.1:1/tenants", "hunter2")


def test_a_wrong_password(folder: Path, database_url: str) -> None:
    url = database_url.replace("postgres@", f"{GUARDED}:hunter2@")

    assert_one_clear_line(Shell(folder, url), "rejects the user or the password", "hunter2")


def test_a_database_that_is_not_migrated(folder: Path, empty_database_url: str) -> None:
    assert_one_clear_line(Shell(folder, empty_database_url), "run `tenantcron migrate`")


@pytest.mark.parametrize(
    "url", ["mysql://root:hunter2@x/y", "hunter2", "postgresql://a:hun/ter2@b"]
)
def test_an_invalid_url(folder: Path, url: str) -> None:
    assert_one_clear_line(Shell(folder, url), "postgresql://user:password@host:port", "hun")


def test_a_fresh_machine_needs_no_setup(run_folder: Path, folder: Path) -> None:
    """Without a database URL, the command sets up the embedded server."""
    fresh = run_folder / "fresh"
    fresh.mkdir()
    (folder / "acme.yaml").rename(fresh / "acme.yaml")
    shell = Shell(fresh)

    applied = shell("apply-manifest", "acme.yaml", "--create-tenants")
    again = shell("apply-manifest", "acme.yaml")

    assert applied.code == 0
    assert applied.err.startswith("created an embedded database")
    assert again.err == ""
    assert "2 created" in applied.out
    assert again.out.splitlines()[0] == "acme  unchanged"
