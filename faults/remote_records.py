"""What remote workers record, one line each: `kind key attempt time`.

`R`: an attempt has begun, `E`: its effect, both with the idempotency key. `C`: a completion was
accepted, `D`: a repeated one was answered with the recorded outcome, `X`: a report was refused,
these with the id of the execution. Every start has an effect, unless its worker is killed: the key
is not honoured here, so that repeats are visible.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from tenantcron.client.callbacks import AttemptWork, CallbackWorker
from tenantcron.client.calls import ApiCall
from tenantcron.client.errors import ProblemError, RequestError
from tenantcron.service.responses.callbacks import ReportResponse

FILE: Final = "REMOTE_RECORDS"
# How the sagas behave, by their name. The first attempt of `overdue` ends after its deadline. The
# one of `silent` sends no heartbeats, and reports while the next attempt works.
QUICK, LATE, TWICE, OVERDUE, SILENT = "quick", "late", "twice", "overdue", "silent"
# Seconds.
WORKS_FOR: Final = 1.5
OVERDUE_TIMEOUT: Final = 8
OVERDUE_FOR: Final = 11.0
HEARTBEAT: Final = 5
SILENT_FOR: Final = 11.0
AFTER_SILENCE: Final = 9.0


def record(kind: str, key: str, attempt: object) -> None:
    """Append a line, which one write makes atomic."""
    line = f"{kind} {key} {attempt} {time.time_ns() // 1000}\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    file = os.open(Path(os.environ[FILE]), flags, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


class RecordingWorker(CallbackWorker):
    """Records how the API answers reports."""

    # Whether this process sends no heartbeats, although it works.
    is_silent: ClassVar[bool] = False

    @classmethod
    def of_headers(
        cls, headers: Mapping[str, str], delivery: str | None = None
    ) -> "RecordingWorker":
        """Return the worker of a request."""
        return cls(CallbackWorker.of_headers(headers).address, delivery)

    def heartbeat(self, work: AttemptWork) -> bool:
        """Send a heartbeat, unless the process is silent."""
        return self.is_silent or super().heartbeat(work)

    def _report(self, call: ApiCall[ReportResponse]) -> ReportResponse:
        execution = self.address.execution
        try:
            answer = super()._report(call)
        except (ProblemError, RequestError):
            record("X", execution, 0)
            raise
        if answer["outcome"] == "SUCCEEDED":
            record("D" if answer["repeated"] else "C", execution, answer["attempt"])
        return answer
