"""Check many manifests in several processes."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.manifests.files import find_files
from tenantcron.manifests.many import WORTH_PROCESSES, ManifestChecker

NOW = datetime(2026, 11, 16, tzinfo=UTC)
GOOD = "sagas: [{name: bill, trigger: 'scheduled:nightly:0 2 * * *'}]\n"
TOO_OFTEN = "sagas: [{name: bill, trigger: 'scheduled:nightly:*/5 * * * *'}]\n"


def write_many(folder: Path) -> list[Path]:
    """Write enough manifests for several processes, every seventh with a mistake."""
    for number in range(WORTH_PROCESSES + 30):
        text = TOO_OFTEN if number % 7 == 0 else GOOD
        (folder / f"tenant{number:03}.yaml").write_text(text, encoding="utf-8")
    return find_files([folder])


def found(checker: ManifestChecker, files: list[Path]) -> list[tuple[str, list[str]]]:
    return [
        (file.path.name, [problem.code for problem in file.checked.problems])
        for file in checker.check_all(files)
    ]


def test_many_files_get_the_same_results_in_the_same_order_as_a_few(tmp_path: Path) -> None:
    files, checker = write_many(tmp_path), ManifestChecker(None, None, NOW)
    one_by_one = [verdict for file in files for verdict in found(checker, [file])]

    together = found(checker, files)

    assert together == one_by_one
    assert sum(codes == ["TC301"] for _, codes in together) == len(range(0, len(files), 7))


def test_desired_schedules_are_returned_from_other_processes_on_request(
    tmp_path: Path,
) -> None:
    files = write_many(tmp_path)

    kept = [
        file.checked.desired for file in ManifestChecker(None, None, NOW, True).check_all(files)
    ]
    dropped = [file.checked.desired for file in ManifestChecker(None, None, NOW).check_all(files)]

    alone = ManifestChecker(None, None, NOW, True)
    assert kept == [file.checked.desired for path in files for file in alone.check_all([path])]
    assert any(kept)
    assert not any(dropped)


def test_the_policy_applies_in_every_process(tmp_path: Path) -> None:
    files = write_many(tmp_path)
    policy = tmp_path / "own.toml"
    policy.write_text('[policy]\nminimum_interval = "5m"\n', encoding="utf-8")

    assert all(codes == [] for _, codes in found(ManifestChecker(policy, None, NOW), files))


def test_an_unreadable_policy_is_a_usage_error_in_another_process_too(
    tmp_path: Path,
) -> None:
    files = write_many(tmp_path)
    (tmp_path / "tenantcron.toml").write_text("[policy\n", encoding="utf-8")

    with pytest.raises(UsageError, match=r"tenantcron\.toml: the policy cannot be read"):
        list(ManifestChecker(None, None, NOW).check_all(files))


def test_processes_are_forked_only_if_there_is_no_other_thread() -> None:
    script = (
        "import threading\n"
        "from tenantcron.core.processes import forks_safely\n"
        "alone = forks_safely()\n"
        "done = threading.Event()\n"
        "threading.Thread(target=done.wait).start()\n"
        "print(alone, forks_safely())\n"
        "done.set()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, encoding="utf-8"
    )
    assert run.stdout.split() == [str(sys.platform == "linux"), "False"]
