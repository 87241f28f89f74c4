"""A process that has imported tenantcron, and forks one that runs a command whenever it is asked.

Starting Python and importing everything costs a second of CPU, a fork some milliseconds. It has no
threads, no connections and no event loop that a child could share by mistake: each child is a
process and a session of its own, and calls the entry of the command line like any other.

It reads orders from its standard input and writes what becomes of them to its standard output, a
JSON document a line. When its input ends, it kills its children and ends.
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

from faults import injected
from faults.injected import Fate

_WARM = (
    *("run", "apply_manifest", "reconcile", "tenant", "limits", "migrate", "operating", "report"),
    *("formats.text", "formats.outcomes_text", "main"),
)
# What is imported where it is first needed.
_OTHERS = (
    *("httpx", "uvloop", "rich.table", "psycopg", "sqlalchemy.dialects.postgresql.psycopg"),
    *("anyio._backends._asyncio", "tomllib", "psycopg_binary._uuid", "httpcore"),
)


class Order(TypedDict):
    """A command to run."""

    number: int
    argv: list[str]
    environment: dict[str, str]
    folder: str
    output: str
    fate: Fate


def main() -> None:
    """Serve until the input ends."""
    _warm_up()
    ends, signalled = os.pipe()
    os.set_blocking(signalled, False)
    os.set_blocking(ends, False)
    signal.set_wakeup_fd(signalled)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    _say({"ready": True})
    rest = b""
    while True:
        readable, _, _ = select.select([0, ends], [], [])
        if ends in readable:
            os.read(ends, 4096)
            _tell_ends(children)
        if 0 in readable:
            said = os.read(0, 1 << 16)
            if not said:
                break
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                _follow(json.loads(line), children)
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
    from tenantcron.targets import connecting  # noqa: PLC0415 -- of the tree under test

    # Reading the certificates of the public web is a third of a start, and always the same.
    connecting._trusted = cache(connecting._trusted)
    connecting._trusted(None)
    # What is there is never looked through again, so it stays shared with all children.
    gc.collect()
    gc.freeze()


def _say(what: dict[str, object]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _tell_ends(children: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if not pid:
            return
        if os.WIFSTOPPED(status):
            _say({"stopped": pid})
            continue
        children.discard(pid)
        _say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _follow(order: Order, children: set[int]) -> None:
    pid = os.fork()
    if not pid:
        _become(order)
    children.add(pid)
    _say({"number": order["number"], "pid": pid})


def _become(order: Order) -> NoReturn:
    """Be the process that runs the command, and nothing else."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        _redirect(order["output"])
        os.environ.update(order["environment"])
        os.chdir(order["folder"])
        injected.prepare(order["fate"])
        code = _command(order["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _command(argv: list[str]) -> int:
    from tenantcron.cli.main import main as command  # noqa: PLC0415 -- of the tree under test

    try:
        return command(argv)
    except SystemExit as stop:
        return int(stop.code or 0)


def _redirect(output: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)


if __name__ == "__main__":
    main()
