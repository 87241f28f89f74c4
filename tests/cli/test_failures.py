"""What the commands print if something around them fails: a sentence, never a raw exception."""

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from support.fleet import NIGHTLY, Shell, manifest
from support.ports import free_port

# What Python and its libraries print: `[Errno 2]`, `ConnectError('…')`, tracebacks.
RAW = re.compile(r"\[Errno|\[SSL|[A-Za-z]+(Error|Exception)\b|Traceback|char \d")
NOT_FOUND = "No such file or directory"
PLAN = ("plan", "acme.yaml", "--server")


class Reply(NamedTuple):
    """A reply of a server that is not a healthy tenantcron server."""

    status: int
    body: bytes


REPLIES = {
    "500": Reply(500, b"Internal Server Error"),
    "502": Reply(502, b"<html>Bad Gateway</html>"),
    "302": Reply(302, b""),
    "404": Reply(404, b"not found"),
    "html": Reply(200, b"<html></html>"),
    "broken": Reply(200, b'{"at": '),
    "list": Reply(200, b"[]"),
    "object": Reply(200, b"{}"),
    "expired": Reply(401, b'{"code": "TC701", "detail": "The request is not authenticated."}'),
}


class Handler(BaseHTTPRequestHandler):
    """Replies as the first part of the path says; an unknown one loses the connection."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        reply = REPLIES.get(self.path.split("/")[1])
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "acme.yaml").write_text(manifest("acme", {"nightly": NIGHTLY}), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text").write_text("text", encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    return Shell(tmp_path)


def assert_explained(shell: Shell, line: str, words: str, **variables: str) -> None:
    called = shell(*line.split(), **variables)

    assert called.code == 2
    assert called.err.startswith("error: ")
    assert words in called.err
    assert RAW.search(called.err) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("validate missing.yaml", "missing.yaml: no such file"),
        ("validate missing/acme.yaml", "missing/acme.yaml: no such file"),
        ("validate loop", "loop: not a file"),
        ("validate folder", "folder: found no manifests"),
        ("validate acme.yaml --policy missing.toml", f"cannot be read: {NOT_FOUND}"),
        ("validate acme.yaml --policy folder", "cannot be read: Is a directory"),
        ("validate acme.yaml --policy loop", "cannot be read: Too many levels of symbolic links"),
        ("validate acme.yaml --policy binary", "cannot be read: it is not UTF-8 text"),
        ("validate acme.yaml --policy broken.json", "cannot be read: Invalid statement"),
        ("next --manifest missing.yaml", "missing.yaml: no such file"),
        ("explain TC999", "there is no code TC999"),
        ("apply --plan missing.plan", f"the plan cannot be read: {NOT_FOUND}"),
        ("apply --plan folder", "the plan cannot be read: Is a directory"),
        ("apply --plan text", "not a plan of this version"),
        ("apply --plan broken.json", "not a plan of this version"),
        ("apply --plan binary", "not a plan of this version"),
        ("apply", "give either the manifests to apply or a plan"),
        ("run --once --handlers no.such.module", "there is no module no.such.module"),
        ("run --once --metrics-port 99999", "is not a whole number from 0 to 65535"),
    ],
)
def test_a_file_or_module_that_cannot_be_read_is_explained(
    shell: Shell, line: str, words: str
) -> None:
    assert_explained(shell, line, words)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "is not a PostgreSQL URL"),
        ("mysql://host/x", "is not a PostgreSQL URL"),
        ("postgresql://x@127.0.0.1:99999/x", "the database URL cannot be parsed"),
        ("postgresql://x@127.0.0.1/x?nonsense=1", "the database URL cannot be parsed"),
        ("postgresql://x@no-such-host.invalid/x", "failed to resolve host"),
    ],
)
def test_a_database_that_cannot_be_reached_is_explained(shell: Shell, url: str, words: str) -> None:
    assert_explained(shell, "health", words, TENANTCRON_DATABASE_URL=url)


def test_a_database_that_is_down_is_explained(shell: Shell) -> None:
    url = f"postgresql://x:secret@127.0.0.1:{free_port()}/x"
    words = "Connection refused. Check that the server is running"
    assert_explained(shell, "health", words, TENANTCRON_DATABASE_URL=url)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TENANTCRON_LEASE", "x", "TENANTCRON_LEASE: 'x' is not a duration"),
        ("TENANTCRON_PLAN_KEY_FILE", "/none", f"the plan key cannot be read: {NOT_FOUND}"),
        ("TENANTCRON_PLAN_KEY_FILE", "/", "the plan key cannot be read: Is a directory"),
    ],
)
def test_a_wrong_setting_is_explained(shell: Shell, name: str, value: str, words: str) -> None:
    assert_explained(shell, "apply --plan text", words, **{name: value})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "is not a URL such as https://cron.internal"),
        ("ftp://host", "is not a URL such as https://cron.internal"),
        ("http://host:99999", "is not a URL such as https://cron.internal"),
        ("http://user:secret@host", "has a user, a password or a query"),
        ("http://no-such-host.invalid", "the host name cannot be resolved"),
    ],
)
def test_a_server_with_a_wrong_url_is_explained(shell: Shell, url: str, words: str) -> None:
    assert_explained(shell, " ".join((*PLAN, url)), words)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("500", "the server failed with HTTP 500"),
        ("502", "the server failed with HTTP 502"),
        ("302", "it redirects (HTTP 302)"),
        ("404", "the response is not from tenantcron (HTTP 404)"),
        ("html", "the response is not from tenantcron (HTTP 200)"),
        ("broken", "the response is not from tenantcron (HTTP 200)"),
        ("list", "is not a tenantcron server of this version"),
        ("object", "is not a tenantcron server of this version"),
        ("expired", "it needs a token: set TENANTCRON_TOKEN"),
        ("lost", "the connection was lost before the response"),
    ],
)
def test_a_server_that_fails_is_explained(shell: Shell, port: int, path: str, words: str) -> None:
    assert_explained(shell, " ".join((*PLAN, f"http://127.0.0.1:{port}/{path}")), words)


def test_an_expired_token_is_explained(shell: Shell, port: int) -> None:
    line = " ".join((*PLAN, f"http://127.0.0.1:{port}/expired"))
    words = "is not authenticated. Check TENANTCRON_TOKEN, or create a new token"
    assert_explained(shell, line, words, TENANTCRON_TOKEN="tc_old_token")  # noqa: S106 -- not a real one


def test_a_server_that_is_down_is_explained(shell: Shell) -> None:
    assert_explained(shell, " ".join((*PLAN, f"http://127.0.0.1:{free_port()}")), "cannot connect")


def test_a_server_without_tls_is_explained(shell: Shell, port: int) -> None:
    words = "it does not accept TLS"
    assert_explained(shell, " ".join((*PLAN, f"https://127.0.0.1:{port}")), words)
