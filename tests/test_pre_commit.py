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
POLICY = """\
[policy.presets]
nightly = "0 2 * * *"
"""
NIGHTLY = """\
tenant: umbrella
sagas:
  - name: reconcile
    trigger: scheduled:nightly
"""
CONFIGURATION = """\
repos:
  - repo: {repo}
    rev: {rev}
    hooks:
      - id: tenantcron-validate
"""


@dataclass(frozen=True)
class Hook:
    """The project as a repository of hooks, and the environment that it is installed in."""

    configuration: str
    environment: dict[str, str]


@dataclass(frozen=True)
class Repository:
    """A repository of manifests that uses the hook."""

    folder: Path
    environment: dict[str, str]

    def commit(self, **files: str) -> subprocess.CompletedProcess[str]:
        """Stage these files, and run the hook as their commit would."""
        for file, text in files.items():
            self.write(file, text)
            subprocess.run(["git", "add", file], cwd=self.folder, env=self.environment, check=True)
        command = [sys.executable, "-m", "pre_commit", "run", "--color=never"]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def write(self, file: str, text: str) -> None:
        """Write a file of the repository."""
        place = self.folder / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Hook:
    environment = _environment(tmp_path_factory.mktemp("pre-commit"))
    folder = tmp_path_factory.mktemp("tenantcron")
    _copy_project(folder)
    rev = _commit_all(folder, environment)
    return Hook(CONFIGURATION.format(repo=folder, rev=rev), environment)


@pytest.fixture
def repository(hook: Hook, tmp_path: Path) -> Repository:
    repository = Repository(tmp_path, hook.environment)
    repository.write(".pre-commit-config.yaml", hook.configuration)
    repository.write("manifests/good.yaml", GOOD.format(tenant="good"))
    repository.write("manifests/umbrella.yaml", NIGHTLY)
    repository.write("tenantcron.toml", POLICY)
    _commit_all(tmp_path, hook.environment)
    return repository


def test_a_valid_manifest_passes(repository: Repository) -> None:
    done = repository.commit(**{"manifests/acme.yaml": GOOD.format(tenant="acme")})
    assert done.returncode == 0, done.stdout
    assert "Passed" in done.stdout


def test_an_invalid_manifest_stops_the_commit_and_shows_the_position(
    repository: Repository,
) -> None:
    done = repository.commit(**{"manifests/hasty.yaml": TOO_FREQUENT})
    assert done.returncode == 1, done.stdout
    assert "error[TC301]" in done.stdout
    assert "manifests/hasty.yaml:6:15" in done.stdout
    assert "3 manifests checked: 1 error, 0 warnings" in done.stdout


def test_a_second_manifest_for_a_committed_tenant_stops_the_commit(repository: Repository) -> None:
    done = repository.commit(**{"manifests/good-again.yaml": GOOD.format(tenant="good")})
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("error[TC501]") == 1


def test_a_preset_that_a_committed_manifest_uses_cannot_be_removed(repository: Repository) -> None:
    done = repository.commit(**{"tenantcron.toml": "[policy]\n"})
    assert done.returncode == 1, done.stdout
    assert "error[TC206]" in done.stdout
    assert "manifests/umbrella.yaml:4:14" in done.stdout


def test_a_commit_without_manifests_and_policies_does_not_run_the_hook(
    repository: Repository,
) -> None:
    done = repository.commit(**{"elsewhere.yaml": "not: a manifest\n"})
    assert done.returncode == 0, done.stdout
    assert "Skipped" in done.stdout


def test_manifests_can_be_in_another_folder(repository: Repository, hook: Hook) -> None:
    own = "        files: ^tenants/|tenantcron\\.toml$\n        args: [--strict, tenants/]\n"
    done = repository.commit(
        **{
            ".pre-commit-config.yaml": hook.configuration + own,
            "tenants/good.yaml": GOOD.format(tenant="good"),
            "tenants/rare.yaml": GOOD.format(tenant="rare").replace("0 2 * * *", "0 2 13 * fri"),
        }
    )
    assert done.returncode == 1, done.stdout
    assert "warning[TC204]" in done.stdout
    assert "2 manifests checked: 0 errors, 1 warning" in done.stdout


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
