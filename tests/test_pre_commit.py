"""The hook in another repository: pre-commit installs this project and runs it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

GOOD = """\
tenant: {tenant}
sagas:
  - name: reconcile
    trigger: "scheduled:nightly:0 2 * * *"
"""
TOO_FREQUENT = """\
tenant: hasty
sagas:
  - name: poll
    trigger:
      scheduled:
        cron: "*/5 * * * *"
"""
# Enough files for pre-commit to distribute over processes, if the hook allowed it.
TENANTS = [f"tenant-{number:02}" for number in range(20)]
CONFIGURATION = """\
repos:
  - repo: {repo}
    rev: {rev}
    hooks:
      - id: tenantcron-validate
        files: ^manifests/
"""


@dataclass(frozen=True)
class Repository:
    """A repository of manifests that uses the hook."""

    folder: Path
    environment: dict[str, str]

    def run_hook(self, *files: str) -> subprocess.CompletedProcess[str]:
        """Run the hook as a commit of these files would."""
        command = [sys.executable, "-m", "pre_commit", "run", "--color=never", "--files", *files]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("platform")
    environment = _environment(tmp_path_factory.mktemp("pre-commit"))
    hooks = tmp_path_factory.mktemp("tenantcron")
    _copy_project(hooks)
    rev = _commit_all(hooks, environment)
    manifests = folder / "manifests"
    manifests.mkdir()
    for tenant in ("good", *TENANTS):
        (manifests / f"{tenant}.yaml").write_text(GOOD.format(tenant=tenant))
        (manifests / f"{tenant}-again.yaml").write_text(GOOD.format(tenant=tenant))
    (manifests / "hasty.yaml").write_text(TOO_FREQUENT)
    (folder / "elsewhere.yaml").write_text("not: a manifest\n")
    configuration = CONFIGURATION.format(repo=hooks, rev=rev)
    (folder / ".pre-commit-config.yaml").write_text(configuration)
    _commit_all(folder, environment)
    return Repository(folder, environment)


def test_a_valid_manifest_passes(repository: Repository) -> None:
    done = repository.run_hook("manifests/good.yaml")
    assert done.returncode == 0, done.stdout
    assert "Passed" in done.stdout


def test_an_invalid_manifest_stops_the_commit_and_shows_the_position(
    repository: Repository,
) -> None:
    done = repository.run_hook("manifests/good.yaml", "manifests/hasty.yaml")
    assert done.returncode == 1, done.stdout
    assert "error[TC301]" in done.stdout
    assert "manifests/hasty.yaml:6:15" in done.stdout
    assert "2 manifests checked: 1 error, 0 warnings" in done.stdout


def test_one_run_checks_all_files_so_two_manifests_of_a_tenant_are_found(
    repository: Repository,
) -> None:
    files = [f"manifests/{tenant}{end}.yaml" for tenant in TENANTS for end in ("", "-again")]
    done = repository.run_hook(*files)
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("error[TC501]") == len(TENANTS)
    assert "40 manifests checked: 20 errors, 0 warnings" in done.stdout


def test_files_outside_the_manifests_folder_are_ignored(repository: Repository) -> None:
    done = repository.run_hook("elsewhere.yaml")
    assert done.returncode == 0, done.stdout
    assert "Skipped" in done.stdout


def _environment(home: Path) -> dict[str, str]:
    """Keep the variables that pip needs to find packages, but not those of the user's git."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return own | {
        "PRE_COMMIT_HOME": str(home),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def _copy_project(target: Path) -> None:
    """Copy the files that a clone would have if everything were committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())


def _commit_all(folder: Path, environment: dict[str, str]) -> str:
    """Turn the folder into a repository with one commit; return its id."""
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    steps = (
        ["git", "init", "--quiet"],
        ["git", "add", "--all"],
        ["git", *identity, "commit", "--quiet", "--no-verify", "--message", "All of it"],
    )
    for step in steps:
        subprocess.run(step, cwd=folder, env=environment, check=True)
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
