"""The callback worker, against servers that do not answer."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from support.patience import PATIENCE

from tenantcron.client import RequestError
from tenantcron.client.callbacks import AttemptWork, CallbackAddress, CallbackWorker

HEARTBEAT = 1.0
_ANSWER = b'{"cancel": false, "reason": null, "deadline": null, "heartbeat_seconds": 1}'


class SilentServer:
    """Accepts connections; answers all after the first few, and never closes those."""

    def __init__(self, silent: int) -> None:
        self.silent = silent
        self.requests = 0
        self.answered = Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            self.requests += 1
            if self.requests > self.silent:
                connection.recv(65536)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(_ANSWER)}\r\n\r\n"
                connection.sendall(head.encode() + _ANSWER)
                self.answered.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            connection.close()
        self._thread.join(PATIENCE)


@contextmanager
def silent_server(silent: int) -> Iterator[SilentServer]:
    server = SilentServer(silent)
    try:
        yield server
    finally:
        server.close()


def worker_at(url: str) -> CallbackWorker:
    return CallbackWorker(CallbackAddress(url, "0", "token", HEARTBEAT))


def test_a_heartbeat_without_a_response_is_followed_by_the_next_one_in_time() -> None:
    with silent_server(silent=1) as server:
        worker = worker_at(server.url)
        beats = Thread(target=worker._beat, args=(AttemptWork(), stop := Event()))
        beats.start()
        # The second one is on its way before the lease of the first one would have ended.
        assert server.answered.wait(HEARTBEAT)
        stop.set()
        beats.join(PATIENCE)


def test_a_report_without_a_response_is_repeated_on_another_connection() -> None:
    with silent_server(silent=2) as server, pytest.raises(RequestError, match="of this version"):
        worker_at(server.url).complete()
    assert server.requests >= 3


def test_a_report_gives_up_when_the_attempt_would_be_lost() -> None:
    with silent_server(silent=100) as server, pytest.raises(RequestError, match="in time"):
        worker_at(server.url).complete()
    assert 2 <= server.requests <= 6
