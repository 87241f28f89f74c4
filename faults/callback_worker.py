"""A service that accepts attempts, works on them in threads, and reports their end.

It is killed at any time; its attempts are lost then, and no thread resumes them.
"""

import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep

from faults import remote_records
from faults.remote_records import RecordingWorker, record
from tenantcron.client.callbacks import WorkCancelled
from tenantcron.client.errors import ProblemError, RequestError

# Seconds, by kind.
_WORKS_FOR = {
    remote_records.LATE: remote_records.WORKS_FOR,
    remote_records.SILENT: remote_records.AFTER_SILENCE,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Accept an attempt."""
        self.rfile.read(int(self.headers["Content-Length"]))
        headers = dict(self.headers.items())
        key, attempt = headers["Idempotency-Key"], int(headers["X-Tenantcron-Attempt"])
        record("R", key, attempt)
        worker = RecordingWorker.of_headers(headers)
        kind = self.path.strip("/")
        Thread(target=_work, args=(worker, kind, key, attempt), daemon=True).start()
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as declared
        """Log nothing."""


def _work(worker: RecordingWorker, kind: str, key: str, attempt: int) -> None:
    """Work on an attempt. Its report may be refused, or the API may be away for too long."""
    is_first = attempt == 1
    with suppress(ProblemError, RequestError, WorkCancelled):
        if is_first and kind in (remote_records.OVERDUE, remote_records.SILENT):
            is_overdue = kind == remote_records.OVERDUE
            sleep(remote_records.OVERDUE_FOR if is_overdue else remote_records.SILENT_FOR)
            record("E", key, attempt)
            worker.complete()
            return
        with worker.working() as work:
            sleep(_WORKS_FOR.get(kind, 0.0))
            work.raise_if_cancelled()
            record("E", key, attempt)
            if kind == remote_records.TWICE:
                worker.complete()


class _Server(ThreadingHTTPServer):
    # Enough for the calls that arrive while the machine does not run this process.
    request_queue_size = 128


if __name__ == "__main__":
    _Server(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
