"""Handlers in isolated processes of a real scheduler, and what ends them."""

import os
import signal
from pathlib import Path

from support.misbehaving import events, scheduler
from support.processes import query, until

# Each records its process id, so that a test can check whether the process has ended.
HANDLERS = """
log = structlog.get_logger()

def isolated(name, **options):
    return saga(name, isolation="process", **options)

def note(execution):
    file = Path(execution.saga_name)
    file.with_suffix(".new").write_text(str(os.getpid()))
    file.with_suffix(".new").rename(file)

@isolated("exits")
def exits(execution):
    os._exit(137)

@isolated("killed")
def killed(execution):
    os.kill(os.getpid(), signal.SIGKILL)

@isolated("hungry", memory="64MiB")
def hungry(execution):
    kept = []
    thread = threading.Thread(target=lambda: [kept.append(bytearray(1 << 20)) for _ in range(20)])
    thread.start()
    thread.join()
    while True:
        kept.append(bytearray(1 << 20))

@isolated("refuses")
async def refuses(execution):
    raise Fail("never again")

@isolated("waits")
def waits(execution):
    raise Retry("not now", after=3600)

@saga("beside")
async def runs_beside(execution):
    note(execution)
    while not Path("go").exists():
        await asyncio.sleep(0.05)

@isolated("endless")
def endless(execution):
    threading.Thread(target=lambda: time.sleep(3600)).start()
    note(execution)
    while True:
        pass

@isolated("stubborn")
def stubborn(execution):
    note(execution)
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            Path("asked").touch()

@isolated("cleans")
async def cleans(execution):
    note(execution)
    try:
        await asyncio.sleep(3600)
    finally:
        Path("cleaned").write_text(str(execution.cancelled))

@isolated("writes")
def writes(execution):
    structlog.contextvars.bind_contextvars(step="two")
    with execution.connection() as connection:
        actor = connection.execute(text("select changed_by from tenantcron.acting()")).scalar()
        connection.execute(text("insert into written values (1)"))
        user = connection.execute(text("select session_user")).scalar()
    try:
        raise ValueError("seen by the log")
    except ValueError:
        log.exception(
            "written", pid=os.getpid(), is_by=actor, user=user, payload=execution.payload
        )

@isolated("reads")
async def reads(execution):
    async with execution.connection() as connection:
        log.info("read", n=(await connection.execute(text("select n from written"))).scalar())
    try:
        await execution.token("https://billing.internal")
    except TokenError as error:
        log.info("no_token", why=str(error))
    logging.getLogger("meters").warning("%d is slow", 7)
    return {"meters": [7]}
"""
CANCEL = (
    "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'enough'"
    " WHERE saga_name = 'cleans'"
)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie: ended, but not reaped yet.
    return stat(pid)[0] == "Z"


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def test_the_end_of_a_handler_process_fails_the_attempt_and_loses_no_worker(
    tmp_path: Path, database_url: str
) -> None:
    sagas = ["exits", "killed", "hungry", "refuses", "waits"]
    once = dict.fromkeys(sagas, ", retry: {max_attempts: 1}") | {"waits": "", "beside": ""}
    with scheduler(tmp_path, database_url, HANDLERS, once) as run:
        run.start()
        run.make_due("beside")
        run.until_noted("beside")
        run.make_due(*sagas)
        ended = {saga: run.until_state(saga, "DEAD", "RETRYING") for saga in sagas}
        run.note("go")
        beside = run.until_state("beside", "SUCCEEDED", "DEAD")
        run.end()

    assert {saga: (row["state"], row["reason"]) for saga, row in ended.items()} == {
        "exits": ("DEAD", "its process exited with status 137"),
        "killed": ("DEAD", "its process was killed by signal 9 (Killed)"),
        "hungry": ("DEAD", "it exceeded its memory limit of 64 MiB"),
        "refuses": ("DEAD", "never again"),
        "waits": ("RETRYING", "not now"),
    }
    waits = ended["waits"]
    assert (waits["not_before"] - waits["started_at"]).total_seconds() >= 3600
    assert (beside["state"], beside["attempt"]) == ("SUCCEEDED", 1)


def test_a_timeout_or_a_cancellation_kills_the_process(tmp_path: Path, database_url: str) -> None:
    short = ", timeout: 1s, retry: {max_attempts: 1}"
    sagas = {"endless": short, "stubborn": short, "cleans": ""}
    with scheduler(tmp_path, database_url, HANDLERS, sagas) as run:
        process = run.start()
        run.make_due(*sagas)
        pids = {saga: int(run.until_noted(saga).read_text()) for saga in sagas}
        query(database_url, CANCEL)
        ended = {saga: run.until_state(saga, "DEAD", "CANCELLED") for saga in sagas}
        until(lambda: all(is_gone(pid) for pid in pids.values()))
        (worker,) = query(database_url, "SELECT * FROM tenantcron.worker")
        tasks = Path(f"/proc/{process.pid}/task")
        threads = {(task / "comm").read_text() for task in tasks.iterdir()}
        lines = run.end()

    assert {saga: (row["state"], row["reason"]) for saga, row in ended.items()} == {
        "endless": ("DEAD", "timed out after 1s"),
        "stubborn": ("DEAD", "timed out after 1s"),
        "cleans": ("CANCELLED", "enough"),
    }
    assert (tmp_path / "asked").exists(), "it was asked before it was killed"
    assert (tmp_path / "cleaned").read_text() == "True"
    assert [line["saga"] for line in events(lines, "process_killed")] == ["stubborn"]
    assert worker["abandoned"] == 0
    assert not any("saga" in name for name in threads)


def test_an_isolated_handler_has_connections_and_its_log_reaches_the_scheduler(
    tmp_path: Path, database_url: str
) -> None:
    with scheduler(tmp_path, database_url, HANDLERS, ["writes", "reads"]) as run:
        query(database_url, "CREATE TABLE tenant_acme.written (n int)")
        process = run.start()
        run.make_due("writes")
        writes = run.until_state("writes", "SUCCEEDED", "DEAD", "RETRYING")
        run.make_due("reads")
        reads = run.until_state("reads", "SUCCEEDED", "DEAD", "RETRYING")
        lines = run.end()
        left = "SELECT log, result FROM tenantcron.execution_attempt WHERE execution_id = %s"
        (output,) = query(database_url, left, reads["id"])

    assert (writes["state"], reads["state"]) == ("SUCCEEDED", "SUCCEEDED")
    assert output["result"] == {"meters": [7]}
    assert str(output["log"]).splitlines()[-1] == "warning 7 is slow logger=meters"
    (write,), (read,) = events(lines, "written"), events(lines, "read")
    assert write["level"] == "error"
    assert write["pid"] != process.pid
    assert (write["execution"], write["saga"], write["attempt"]) == (
        str(writes["id"]),
        "writes",
        1,
    )
    assert (write["is_by"], write["actor"]) == ("system:scheduler:scheduler",) * 2
    assert str(write["user"]).endswith("_acme")
    assert write["step"] == "two"
    assert "ValueError: seen by the log" in str(write["exception"])
    assert read["n"] == 1
    (refused,) = events(lines, "no_token")
    assert str(refused["why"]).startswith("no token")


def test_a_handler_in_a_process_has_the_schedulers_login_if_the_platform_wants_that(
    tmp_path: Path, database_url: str
) -> None:
    setting = {"TENANTCRON_HANDLER_ROLE": "scheduler"}
    with scheduler(tmp_path, database_url, HANDLERS, ["writes"], **setting) as run:
        query(database_url, "CREATE TABLE tenant_acme.written (n int)")
        run.start()
        run.make_due("writes")
        run.until_state("writes", "SUCCEEDED", "DEAD", "RETRYING")
        lines = run.end()

    assert [line["user"] for line in events(lines, "written")] == ["postgres"]


def test_the_processes_of_handlers_end_with_a_killed_scheduler(
    tmp_path: Path, database_url: str
) -> None:
    with scheduler(tmp_path, database_url, HANDLERS, ["endless", "stubborn"]) as run:
        process = run.start()
        run.make_due("endless", "stubborn")
        pids = [int(run.until_noted(saga).read_text()) for saga in ("endless", "stubborn")]
        assert not any(is_gone(pid) for pid in pids)
        process.kill()
        process.communicate()
        until(lambda: all(is_gone(pid) for pid in pids))


def test_a_killed_fork_server_fails_its_attempts_and_is_restarted(
    tmp_path: Path, database_url: str
) -> None:
    sagas = {"stubborn": ", retry: {max_attempts: 1}", "refuses": ""}
    with scheduler(tmp_path, database_url, HANDLERS, sagas) as run:
        run.start()
        run.make_due("stubborn")
        child = int(run.until_noted("stubborn").read_text())
        server = int(stat(child)[1])
        os.kill(server, signal.SIGKILL)
        stubborn = run.until_state("stubborn", "DEAD")
        until(lambda: is_gone(child))
        run.make_due("refuses")
        refuses = run.until_state("refuses", "DEAD")
        run.end()

    assert stubborn["reason"] == "its process is gone: the fork server exited"
    assert refuses["reason"] == "never again"


def test_a_shutdown_ends_the_processes_of_handlers(tmp_path: Path, database_url: str) -> None:
    variables = {"TENANTCRON_DRAIN": "1s"}
    with scheduler(tmp_path, database_url, HANDLERS, ["cleans"], **variables) as run:
        process = run.start()
        run.make_due("cleans")
        pid = int(run.until_noted("cleans").read_text())
        run.end()
        row = run.execution("cleans")

    assert process.returncode == 0
    assert is_gone(pid)
    assert (tmp_path / "cleaned").exists()
    assert (row["state"], row["reason"]) == ("RETRYING", "interrupted by shutdown")


def test_a_handler_that_a_new_process_cannot_import_is_rejected_at_start(
    tmp_path: Path, database_url: str
) -> None:
    hidden = "if os.environ.pop('FIRST', None): saga('hidden', isolation='process')(print)\n"
    with scheduler(tmp_path, database_url, f"{hidden}saga('x')(print)\n", ["x"]) as run:
        called = run.refused(FIRST="1")

    assert called.code == 2
    assert "saga 'hidden' has isolation=\"process\", and importing the modules" in called.err
    assert "Declare it at the top level of such a module" in called.err
