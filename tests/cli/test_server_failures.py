"""What commands with `--server` print if the server fails: a sentence, never a raw exception."""

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.fleet import Shell
from support.ports import free_port

from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.client import AsyncClient, ProblemError
from tenantcron.service.responses.problem_types import PROBLEMS

# What Python and its libraries print.
RAW = re.compile(r"\[Errno|\[SSL|[A-Za-z]+(Error|Exception)\b|Traceback|char \d|KeyError")
COMMANDS = (
    *("execution list", "execution list --follow", "execution list --watch --format json"),
    *("execution show 00000000", "logs acme/nightly", "logs 00000000 --follow"),
    *("schedule show acme/nightly", "why acme/nightly"),
)
REPLIES = {
    "500": (500, b"Internal Server Error"),
    "302": (302, b""),
    "404": (404, b"not found"),
    "html": (200, b"<html></html>"),
    "broken": (200, b'{"executions": '),
    "list": (200, b"[]"),
    "401": (401, b'{"code": "TC701", "detail": "The request is not authenticated."}'),
    "403": (403, b'{"code": "TC702", "detail": "The role does not allow it."}'),
}


class Handler(BaseHTTPRequestHandler):
    """Replies as the first part of the path says."""

    def do_GET(self) -> None:
        status, body = REPLIES[self.path.split("/")[1]]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def assert_explained(shell: Shell, line: str, url: str) -> None:
    called = shell(*line.split(), "--server", url)

    assert called.code in (1, 2)
    assert called.out == ""
    assert called.err.startswith("error: ")
    assert len(called.err.splitlines()) == 1
    assert RAW.search(called.err) is None, called.err


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("path", REPLIES)
def test_a_server_that_fails_is_explained(tmp_path: Path, port: int, line: str, path: str) -> None:
    assert_explained(Shell(tmp_path), line, f"http://127.0.0.1:{port}/{path}")


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://user:secret@host"])
def test_a_wrong_url_is_explained(tmp_path: Path, line: str, url: str) -> None:
    assert_explained(Shell(tmp_path), line, url)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_server_that_is_down_is_explained(tmp_path: Path, line: str) -> None:
    assert_explained(Shell(tmp_path), line, f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("code", PROBLEMS)
@pytest.mark.parametrize("has_token", [True, False])
def test_no_problem_has_duplicated_punctuation(code: str, has_token: bool) -> None:
    problem = PROBLEMS[code]
    client = AsyncClient("http://127.0.0.1:1", "tc_x" if has_token else None)
    for detail in (problem.rule.what, problem.rule.what.rstrip("."), "retry: it is busy. "):
        caller = ServerCaller(client, "TENANTCRON_TOKEN")
        members = {"code": code, "detail": detail}
        raised = ProblemError(client.server, problem.status, members, "4f2a")

        assert re.search(r"[.:;,]\s*[.:;,()]|\s{2}|\s$", str(caller.error_of(raised))) is None


def test_an_actor_cannot_be_named_for_a_server(tmp_path: Path) -> None:
    line = "execution retry 00000000 --actor maria --server http://127.0.0.1:1"
    called = Shell(tmp_path)(*line.split())
    assert called.code == 2
    assert "--actor cannot be used with --server" in called.err
