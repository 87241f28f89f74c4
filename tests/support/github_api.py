"""A part of GitHub's REST API on loopback: the comments of pull requests."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "ghs_of_the_job"  # noqa: S105 -- of the tests
REPOSITORY = "octo/schedules"
_LIST = re.compile(rf"/repos/{REPOSITORY}/issues/7/comments\?per_page=(\d+)(?:&page=(\d+))?")


@dataclass(slots=True)
class GitHub:
    """The comments of a pull request, and the calls that were made."""

    url: str
    comments: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    # The token of a fork's pull request can read only.
    is_read_only: bool = False

    def add(self, body: str, author: str) -> None:
        """Add a comment as a user, or as the account of workflows."""
        self.comments.append(
            {"id": 100 + len(self.comments), "body": body, "user": {"login": author}}
        )

    def bodies(self, author: str = "github-actions[bot]") -> list[str]:
        """Return the comments of an author."""
        return [each["body"] for each in self.comments if each["user"]["login"] == author]


class _Server(ThreadingHTTPServer):
    """A server with the state that its requests change."""

    github: GitHub


class _Api(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        listed, github = _LIST.fullmatch(self.path), self.server.github
        if not self._is_allowed():
            return
        if listed is None:
            self._answer(404, {})
            return
        size, page = int(listed[1]), int(listed[2] or 1)
        shown = github.comments[(page - 1) * size : page * size]
        following = f"{github.url}{self.path.partition('?')[0]}?per_page={size}&page={page + 1}"
        has_more = len(github.comments) > page * size
        self._answer(200, shown, f'<{following}>; rel="next"' if has_more else None)

    def do_POST(self) -> None:
        body = self._body()
        if self._is_allowed():
            self.server.github.add(body, "github-actions[bot]")
            self._answer(201, self.server.github.comments[-1])

    def do_PATCH(self) -> None:
        body, comment_id = self._body(), int(self.path.rpartition("/")[2])
        if self._is_allowed():
            comments = self.server.github.comments
            (comment,) = [each for each in comments if each["id"] == comment_id]
            comment["body"] = body
            self._answer(200, comment)

    def _is_allowed(self) -> bool:
        """Check the token; answer the request if it may not do this."""
        self.server.github.calls.append(self.command)
        may_write = self.command == "GET" or not self.server.github.is_read_only
        is_allowed = may_write and self.headers["Authorization"] == f"Bearer {TOKEN}"
        if not is_allowed:
            self._answer(403, {"message": "Resource not accessible by integration"})
        return is_allowed

    def _body(self) -> str:
        read = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return str(read["body"])

    def _answer(self, status: int, answer: object, link: str | None = None) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if link:
            self.send_header("Link", link)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass


@contextmanager
def github_api() -> Iterator[GitHub]:
    """Serve until the end of the block."""
    server = _Server(("127.0.0.1", 0), _Api)
    server.github = GitHub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.github
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
