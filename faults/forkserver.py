"""A process that has imported tenantcron and forks a child for each command.

Starting Python and importing everything costs a second of CPU, a fork some milliseconds. The fork
server has no threads, connections or event loop that a child could inherit. Each child is a
separate process and session, and calls the normal entry point of the command line.

It reads orders from stdin and writes their results to stdout, one JSON document per line. When its
input ends, it kills its children and exits.
"""

import gc
import json
import os
import select
import signal
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import NoReturn, TypedDict

from faults import injection
from faults.injection import Injections

_WARM = (
    *("run", "apply_manifest", "reconcile", "tenant", "limits", "migrate", "operating", "report"),
    *("formats.text", "formats.outcomes_text", "main"),
)
# Modules that are otherwise imported on first use.
_OTHERS = (
    *("httpx", "uvloop", "rich.table", "psycopg", "sqlalchemy.dialects.postgresql.psycopg"),
    *("anyio._backends._asyncio", "tomllib", "psycopg_binary._uuid", "httpcore"),
    *("tenantcron.cli.serve", "tenantcron.api.app", "tenantcron.web.app", "uvicorn"),
)


# Not a command of the product: a client that submits tasks.
CLIENT = "faults.submitter"


class Order(TypedDict):
    """A command to run."""

    number: int
    argv: list[str]
    environment: dict[str, str]
    folder: str
    output: str
    injections: Injections


def main() -> None:
    """Serve until the input ends."""
    _warm_up()
    ends, signalled = os.pipe()
    os.set_blocking(signalled, False)
    os.set_blocking(ends, False)
    signal.set_wakeup_fd(signalled)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    _send({"ready": True})
    rest = b""
    while True:
        readable, _, _ = select.select([0, ends], [], [])
        if ends in readable:
            os.read(ends, 4096)
            _report_ends(children)
        if 0 in readable:
            received = os.read(0, 1 << 16)
            if not received:
                break
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                _fork(json.loads(line), children)
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _warm_up() -> None:
    for name in _WARM:
        import_module(f"tenantcron.cli.{name}")
    for name in _OTHERS:
        with suppress(ImportError):
            import_module(name)
    import_module("faults.sagas")
    import_module(CLIENT)
    from tenantcron.targets.http import connecting  # noqa: PLC0415 -- from the tree under test

    # Reading the public CA certificates is a third of the start-up time, and always the same.
    connecting.trusting = cache(connecting.trusting)
    connecting.trusting(None)
    # Frozen objects are ignored by the garbage collector, so their pages stay shared with all
    # children.
    gc.collect()
    gc.freeze()


def _send(what: dict[str, object]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _report_ends(children: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if not pid:
            return
        if os.WIFSTOPPED(status):
            _send({"stopped": pid})
            continue
        children.discard(pid)
        _send({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _fork(order: Order, children: set[int]) -> None:
    pid = os.fork()
    if not pid:
        _run_child(order)
    children.add(pid)
    _send({"number": order["number"], "pid": pid})


def _run_child(order: Order) -> NoReturn:
    """Run the command in the child process, and exit."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        _redirect(order["output"])
        os.environ.update(order["environment"])
        os.chdir(order["folder"])
        injection.prepare(order["injections"])
        code = _command(order["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _command(argv: list[str]) -> int:
    from tenantcron.cli.main import main as command  # noqa: PLC0415 -- from the tree under test

    if argv[0] == CLIENT:
        from faults.submitter import main as submit  # noqa: PLC0415 -- as above

        return submit(argv[1:])
    try:
        return command(argv)
    except SystemExit as stop:
        return int(stop.code or 0)


def _redirect(output: str) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


if __name__ == "__main__":
    main()
