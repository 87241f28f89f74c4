"""Names of tenants and schedules for completion, from the first source that is configured.

The sources are the server or database that the command would use, and otherwise the manifests in
the working directory. A source that does not answer in time completes nothing. The embedded server
is never started: that takes longer than a user waits.
"""

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Thread
from typing import Protocol

from tenantcron.cli.clusters.choice import chosen
from tenantcron.cli.clusters.targets import ChosenServer
from tenantcron.cli.shells.command_table import ValueKind
from tenantcron.core.errors import TenantcronError
from tenantcron.core.settings import load_settings

# At most this many names are offered, and at most this long is waited for them.
MOST = 200
PATIENCE = 1.0


class NameSource(Protocol):
    """Where names come from."""

    def tenants(self, prefix: str) -> Sequence[str]:
        """Return ids of tenants that begin with the prefix."""

    def schedules(self, tenant: str, prefix: str) -> Sequence[str]:
        """Return names of the tenant's schedules that begin with the prefix."""


def names(kind: ValueKind, word: str, words: Sequence[str]) -> Iterable[str]:
    """Return the names of a kind that begin with the word."""
    if kind is ValueKind.TIME_ZONE:
        return _time_zones(word)
    try:
        source = _source(words)
    except TenantcronError:  # a wrong setting: the command itself explains it
        return ()
    return _within(PATIENCE, lambda: _found(source, kind, word))


def _found(source: NameSource, kind: ValueKind, word: str) -> list[str]:
    tenant, slash, schedule = word.partition("/")
    if kind is ValueKind.TENANT:
        return [*source.tenants(word)]
    if slash:
        return [f"{tenant}/{name}" for name in source.schedules(tenant, schedule)]
    found = source.tenants(tenant)
    alone = found if kind is ValueKind.TENANT_OR_SCHEDULE else ()
    return [*alone, *(f"{name}/" for name in found)]


def _source(words: Sequence[str]) -> NameSource:
    """Return the source; each one is imported only if it is used."""
    given = Namespace(server=_option(words, "--server"), context=_option(words, "--context"))
    target = chosen(given)
    if isinstance(target, ChosenServer):
        from tenantcron.cli.shells.server_names import ServerNames  # noqa: PLC0415 -- see above

        return ServerNames(target.url, target.token(), PATIENCE)
    declared = None if target.is_embedded else load_settings(os.environ, Path.cwd()).database_url
    database = target.url or declared
    if database is not None:
        from tenantcron.store.rows.completions import DatabaseNames  # noqa: PLC0415 -- see above

        return DatabaseNames(database, MOST)
    from tenantcron.cli.shells.manifest_names import ManifestNames  # noqa: PLC0415 -- see above

    return ManifestNames(Path.cwd())


def _option(words: Sequence[str], option: str) -> str | None:
    """Return the value of `--server URL` or `--server=URL`; bash splits the second at `=`."""
    given = [word for word in words if word != "="]
    for at, word in enumerate(given):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(given[at + 1 : at + 2]), None)
    return None


def _time_zones(prefix: str) -> list[str]:
    from tenantcron.cron.zones import zone_names  # noqa: PLC0415 -- see above

    lowered = prefix.lower()
    return sorted(name for name in zone_names() if name.lower().startswith(lowered))


def _within(seconds: float, look_up: Callable[[], list[str]]) -> list[str]:
    """Return the names, or nothing if they take longer: a resolver cannot be interrupted."""
    found: list[str] = []
    thread = Thread(target=lambda: found.extend(look_up()), daemon=True)
    thread.start()
    thread.join(seconds)
    return [] if thread.is_alive() else found
