"""Services for clients that get killed: they count requests, and tolerate aborted ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Lock, Thread
from typing import TypeVar


class PatientService(ThreadingHTTPServer):
    """A service on loopback; its state is protected by its lock."""

    daemon_threads = True

    def __init__(self, handler: type["PatientHandler"], seed: int) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        # A slow handler waits for `closing`, which also ends the wait.
        self.lock, self.closing = Lock(), Event()
        self.random = Random(seed)  # noqa: S311 -- randomness for a test

    def handle_error(self, *_: object) -> None:
        """Ignore errors: killed clients do not read their responses."""


class PatientHandler(BaseHTTPRequestHandler):
    """Responds with a status only."""

    def do_POST(self) -> None:
        self.take()

    def take(self) -> None:
        """Process a request, and respond."""
        raise NotImplementedError

    def body(self) -> bytes:
        """Return the complete body.

        A client that is killed between the head and the body has sent no request: counting the part
        that arrived would show calls that were never made.
        """
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            message = "the client disconnected during its request"
            raise ConnectionError(message)
        return body

    def answer(self, status: int) -> None:
        """Respond without a body."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


Service = TypeVar("Service", bound=PatientService)


@contextmanager
def at_service(service: Service) -> Iterator[Service]:
    """Run a service in its own threads."""
    with service as running:
        thread = Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.closing.set()
        running.shutdown()
        thread.join()
