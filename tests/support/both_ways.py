"""Runs a command on a database and on a server with equal data, and compares what it prints."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.database import TEMPLATE, Server
from support.fleet import Called, Shell, manifest
from support.serve_process import serving

TENANTS = ("acme", "beta")
_VOLATILE = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}(-[0-9a-f]{4}){0,2}(-[0-9a-f]{12})?\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00| UTC)?"), "TIME"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"), "DAY"),
    (re.compile(r"\bin (\d+ (d|h|min|s) ?)+"), "AWAY"),
    (re.compile(r"\btc_\w+"), "TOKEN"),
    # A server attributes changes to the token of the caller.
    (re.compile(r"\btoken:[\w-]+|\bada\b"), "ACTOR"),
    (re.compile(r"\b(human|service|pipeline)\b"), "TYPE"),
    (re.compile(r'"authenticated": (true|false)'), "AUTHENTICATED"),
    (re.compile(r'\b(cli|api)\b(?=["\s)]|$)', re.MULTILINE), "SOURCE"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, slots=True)
class BothWays:
    """Two clusters with equal data: one is used directly, one through a server."""

    folder: Path
    direct: Shell
    served: Shell
    server: str
    token: str

    def on_database(self, *arguments: str) -> Called:
        """Run a command on the database."""
        return self.direct(*arguments)

    def on_server(self, *arguments: str, **variables: str) -> Called:
        """Run a command on the server, without access to a database."""
        given = {"TENANTCRON_TOKEN": self.token, **variables}
        return Shell(self.folder)(*arguments, "--server", self.server, **given)

    def compare(self, *arguments: str, actor: bool = False) -> Called:
        """Run a command both ways; require the same output and exit code."""
        as_ada = ("--actor", "ada") if actor else ()
        here, there = self.on_database(*arguments, *as_ada), self.on_server(*arguments)
        same = comparable(there) == comparable(here)
        assert same, f"{arguments}\n{comparable(here)}\n{comparable(there)}"
        return there


def comparable(called: Called) -> tuple[int, str, str]:
    """Return a result without what differs between two runs."""
    return called.code, _stable(called.out), _stable(called.err)


def _stable(text: str) -> str:
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return text


def json_of(called: Called) -> dict[str, object]:
    """Return the output as JSON."""
    assert called.code == 0, called.err
    parsed: dict[str, object] = json.loads(called.out)
    return parsed


@contextmanager
def both_ways(server: Server, folder: Path) -> Iterator[BothWays]:
    """Create two clusters with the same schedules, and serve one of them."""
    for tenant in TENANTS:
        text = manifest(tenant, {"nightly": "cron: '0 2 * * *'", "weekly": "cron: '0 3 * * 1'"})
        (folder / f"{tenant}.yaml").write_text(text, encoding="utf-8")
    with server.database(TEMPLATE) as direct_url, server.database(TEMPLATE) as served_url:
        direct, served = Shell(folder, direct_url), Shell(folder, served_url)
        for shell in (direct, served):
            applied = shell("apply-manifest", ".", "--create-tenants", "--actor", "ada")
            assert applied.code == 0, applied.err
        made = served("token", "create", "ops", "--role", "admin", "--format", "json")
        token = str(json_of(made)["token"])
        with serving(served) as (url, _):
            yield BothWays(folder, direct, served, url, token)
