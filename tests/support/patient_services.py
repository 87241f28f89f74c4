"""Services for clients that get killed: they count what came, and are not put out by who left."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Lock, Thread
from typing import TypeVar


class PatientService(ThreadingHTTPServer):
    """A service on loopback; what it keeps is kept under its lock."""

    daemon_threads = True

    def __init__(self, handler: type["PatientHandler"], seed: int) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        # Whoever takes its time waits for `closing`, which ends the wait, too.
        self.lock, self.closing = Lock(), Event()
        self.random = Random(seed)  # noqa: S311 -- chance for a test

    def handle_error(self, *_: object) -> None:
        """Killed clients do not read their answers."""


class PatientHandler(BaseHTTPRequestHandler):
    """Answers with a status alone."""

    def do_POST(self) -> None:
        self.take()

    def take(self) -> None:
        """Do with a request what the service does, and answer."""
        raise NotImplementedError

    def body(self) -> bytes:
        """Return what was sent, whole.

        A client that is killed between the head and the body has sent no request: to take the part
        that came for one would show calls that were never made.
        """
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            message = "the client left within its request"
            raise ConnectionError(message)
        return body

    def answer(self, status: int) -> None:
        """Answer without words."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Service = TypeVar("Service", bound=PatientService)


@contextmanager
def at_service(service: Service) -> Iterator[Service]:
    """Let a service run in threads of its own."""
    with service as running:
        thread = Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.closing.set()
        running.shutdown()
        thread.join()
