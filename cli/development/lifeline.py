"""Run a command that ends when the process that started it is gone, however it went.

The standard input is a pipe from `tenantcron dev`, which never writes to it. If that process dies,
the kernel closes the pipe, and the command gets the signal that it would have got from a person.
"""

import os
import signal
import sys
import threading

from tenantcron.cli.main import main

_INPUT = 0


def _end_with_parent() -> None:
    # Not `sys.stdin`: its lock would disturb the end of the interpreter.
    os.read(_INPUT, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.exit(main(sys.argv[1:]))
