"""A rolling upgrade: the previous release keeps working while the database is migrated under load.

The previous release is built from its commit and runs as real processes, beside those of today.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest
from support.fleet import Shell, manifest
from support.patience import PATIENCE
from support.processes import all_ended, executions, make_due, query, until

from tenantcron.store.schema.versions import CONTROL_VERSION

ROOT = Path(__file__).parents[2]
# The previous release. Update it with each release.
PREVIOUS = "6631d4bc91bfba3cf4844775059f7158e1c5505c"
QUICK = [f"quick{number}" for number in range(4)]
# Its first attempt fails: one release writes that it waits for the next, the other may start that.
FLAKY = "flaky"
SAGAS = [*QUICK, FLAKY]
# It succeeds in the previous release only.
BROKEN = "broken"
# The page that has the statement for a rollback.
PAGE = ROOT / "docs" / "high-availability.md"
HANDLERS = """
import os
from sqlalchemy import text
try:
    from tenantcron.scheduler.replica import polling_loops
    is_previous = False
except ImportError:
    from tenantcron.scheduler import run as polling_loops
    is_previous = True
from tenantcron import saga

# No notification is sent when a test makes a cursor due.
polling_loops.LONGEST_SLEEP = 0.05

async def note(execution):
    async with execution.connection() as connection:
        await connection.execute(
            text("INSERT INTO public.called VALUES (:id, :pid)"),
            {"id": execution.id, "pid": os.getpid()},
        )

for number in range(4):
    saga(f"quick{number}")(note)

@saga("flaky")
async def flaky(execution):
    if execution.attempt == 1:
        raise ValueError("not yet")
    await note(execution)

@saga("broken")
async def broken(execution):
    if not is_previous:
        raise ValueError("broken by the upgrade")
    await note(execution)
"""


@pytest.fixture(scope="module")
def previous(run_folder: Path) -> Path:
    """The previous release, installed into a separate folder, with today's libraries."""
    archive = subprocess.run(
        ["git", "archive", PREVIOUS], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode and "CI" not in os.environ:
        pytest.skip("the history of the previous release is not in this clone")
    assert archive.returncode == 0, archive.stderr.decode()
    source, installed = run_folder / "previous-source", run_folder / "previous"
    source.mkdir()
    subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    options = ["--no-build-isolation", "--target", str(installed)]
    subprocess.run([*command, *options, source], check=True, capture_output=True)
    return installed


@dataclass
class Upgrade:
    """A folder with handlers, a database, and processes of both releases."""

    shell: Shell
    url: str
    releases: dict[str, str]
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def command(self, release: str, *arguments: str) -> None:
        """Run a command of a release."""
        process = self.shell.start(*arguments, PYTHONPATH=self.releases[release])
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (out, err)

    def start(self, release: str) -> subprocess.Popen[str]:
        """Start a scheduler of a release, and wait until it is ready."""
        process = self.shell.start(
            *("run", "--handlers", "work"),
            PYTHONPATH=self.releases[release],
            TENANTCRON_LOG_LEVEL="warning",
            TENANTCRON_LEASE="30s",
        )
        self.running.append(process)
        statement = "SELECT 1 FROM tenantcron.worker WHERE id LIKE %s"
        until(lambda: bool(query(self.url, statement, f"%:{process.pid}:%")))
        return process

    def until_worked(self, process: subprocess.Popen[str]) -> None:
        """Wait until a scheduler has run five more executions."""
        before = self._called(process)
        until(lambda: self._called(process) >= before + 5)

    def stop(self, process: subprocess.Popen[str]) -> str:
        """Stop a scheduler as a deployment does, and return its log."""
        self.running.remove(process)
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, log
        return log

    def _called(self, process: subprocess.Popen[str]) -> int:
        statement = "SELECT count(*) AS n FROM public.called WHERE pid = %s"
        return int(query(self.url, statement, process.pid)[0]["n"])


@pytest.fixture
def upgrade(previous: Path, empty_database_url: str, tmp_path: Path) -> Iterator[Upgrade]:
    yearly = 'cron: "0 0 1 1 *", start_within: 1h'
    timetable = f"{yearly}, overlap: allow"
    retried = f"{timetable}, retry: {{max_attempts: 3, backoff: 1s}}"
    often = f"{yearly}, overlap: queue, retry: {{max_attempts: 10, backoff: 1s, max_backoff: 1s}}"
    schedules = {**dict.fromkeys(QUICK, timetable), FLAKY: retried, BROKEN: often}
    document = manifest("acme", schedules)
    (tmp_path / "acme.yaml").write_text(document, encoding="utf-8")
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    releases = {"previous": f"{previous}{os.pathsep}{tmp_path}", "today": str(tmp_path)}
    upgrade = Upgrade(Shell(tmp_path, empty_database_url), empty_database_url, releases)
    query(empty_database_url, "CREATE TABLE public.called (execution_id uuid, pid int)")
    # Handlers of this release have their own privileges.
    query(empty_database_url, "GRANT INSERT ON public.called TO PUBLIC")
    yield upgrade
    for process in upgrade.running:
        process.kill()
        process.communicate()


@contextmanager
def load(url: str) -> Iterator[list[tuple[UUID, datetime]]]:
    """Make schedules due repeatedly during the block, and collect their occurrences."""
    expected: list[tuple[UUID, datetime]] = []
    is_over = threading.Event()

    def keep_due() -> None:
        while not is_over.wait(0.02):
            expected.extend(filter(None, (make_due(url, saga) for saga in SAGAS)))

    thread = threading.Thread(target=keep_due)
    thread.start()
    try:
        yield expected
    finally:
        is_over.set()
        thread.join()


def test_both_releases_share_the_work_while_the_database_is_migrated(upgrade: Upgrade) -> None:
    upgrade.command("previous", "migrate")
    upgrade.command("previous", "apply-manifest", "acme.yaml", "--create-tenants")
    first, second = upgrade.start("previous"), upgrade.start("previous")
    with load(upgrade.url) as expected:
        upgrade.until_worked(first)
        upgrade.command("today", "migrate")
        upgrade.until_worked(first)
        upgrade.until_worked(second)
        new = upgrade.start("today")
        upgrade.until_worked(new)
        logs = [upgrade.stop(first)]
        # A release that is rolled back starts on the new schema.
        returned = upgrade.start("previous")
        upgrade.until_worked(returned)
        logs += [upgrade.stop(process) for process in (second, returned)]
        upgrade.until_worked(new)
    until(lambda: all_ended(upgrade.url))
    logs.append(upgrade.stop(new))

    (version,) = query(upgrade.url, "SELECT version_num FROM tenantcron.schema_version")
    assert version["version_num"] == CONTROL_VERSION
    rows = executions(upgrade.url)
    occurrences = Counter((row["schedule_id"], row["scheduled_for"]) for row in rows)
    assert occurrences == Counter(expected)
    assert {row["state"] for row in rows} == {"SUCCEEDED"}
    calls = query(upgrade.url, "SELECT execution_id FROM public.called")
    assert Counter(row["execution_id"] for row in calls) == Counter(row["id"] for row in rows)
    assert [unexpected(log) for log in logs] == [[]] * 4


def test_retries_continue_in_the_previous_release_after_the_documented_rollback(
    upgrade: Upgrade,
) -> None:
    (statement,) = re.findall(
        r"```sql\n(UPDATE tenantcron\.execution .*)\n```", PAGE.read_text(encoding="utf-8")
    )
    upgrade.command("today", "migrate")
    upgrade.command("today", "apply-manifest", "acme.yaml", "--create-tenants")
    new = upgrade.start("today")
    until(lambda: make_due(upgrade.url, BROKEN) is not None)
    until(lambda: [row["state"] for row in executions(upgrade.url)] == ["RETRYING"])
    upgrade.stop(new)

    query(upgrade.url, statement)
    upgrade.start("previous")
    until(lambda: all_ended(upgrade.url))

    (row,) = executions(upgrade.url)
    assert (row["state"], row["reason_code"], row["reason"]) == ("SUCCEEDED", None, None)


def test_tasks_wait_while_a_scheduler_of_the_previous_release_runs(upgrade: Upgrade) -> None:
    upgrade.command("previous", "migrate")
    upgrade.command("previous", "apply-manifest", "acme.yaml", "--create-tenants")
    former, lost = upgrade.start("previous"), upgrade.start("previous")
    upgrade.command("today", "migrate")
    new = upgrade.start("today")

    task = submitted(upgrade)
    with load(upgrade.url):
        # The new scheduler works, and does not fire the task.
        upgrade.until_worked(new)
        assert why(upgrade, task) == "waits-for-upgrade"
    until(lambda: all_ended(upgrade.url))
    upgrade.stop(former)
    # One that was killed may only be stalled, so it counts for an hour.
    upgrade.running.remove(lost)
    lost.kill()
    lost.communicate()
    assert why(upgrade, task) == "waits-for-upgrade"
    assert task not in {row["id"] for row in executions(upgrade.url)}
    query(
        upgrade.url,
        "UPDATE tenantcron.worker SET seen_at = seen_at - interval '61 min'"
        " WHERE capabilities IS NULL",
    )

    until(lambda: why(upgrade, task) == "succeeded")
    calls = query(upgrade.url, "SELECT pid FROM public.called WHERE execution_id = %s", task)
    assert [row["pid"] for row in calls] == [new.pid]


def submitted(upgrade: Upgrade) -> UUID:
    """Submit a task that is due at once."""
    (row,) = query(upgrade.url, "SELECT tenantcron.submit_task('acme', 'quick0') AS id")
    return UUID(str(row["id"]))


def why(upgrade: Upgrade, task: UUID) -> str:
    """Return the code of the main reason."""
    called = upgrade.shell("why", f"acme/{task}", "--format", "json")
    return str(json.loads(called.out)["findings"][0]["code"])


def unexpected(log: str) -> list[str]:
    """Return the lines of a log, except that the login of tests is a superuser and FLAKY fails."""
    usual = ("login_has_excess_rights", "execution_failed", "execution_retrying")
    return [line for line in log.splitlines() if not any(event in line for event in usual)]
