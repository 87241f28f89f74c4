"""What the setting `tenant_source` names: a table or view, a query, or a Python entry point.

A Python source is a callable without arguments, sync or async, that returns one mapping per tenant.
The keys are the columns of a query: `id`, and optionally `schema_name`, `status`, `status_reason`,
`weight` and `labels`. Other keys are ignored. Its entry point is in the group `tenantcron.tenants`:

    [project.entry-points."tenantcron.tenants"]
    platform = "my_platform.tenants:all_tenants"

and the setting is `tenant_source = "python:platform"`. It is called outside any transaction, a sync
one in its own thread. If it raises an exception, the refresh fails, and nothing changes.
"""

import asyncio
import json
import re
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from inspect import isawaitable
from typing import Final, Protocol

from sqlalchemy.exc import DBAPIError

from tenantcron.core.errors import DeclinedError, UsageError
from tenantcron.core.plugins import load_plugin
from tenantcron.core.words import shortened
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseAwayError, DatabaseError, ReadOnlyError
from tenantcron.store.rows import tenant_sources
from tenantcron.store.rows.tenant_sources import Compared
from tenantcron.tenants.source.threads import in_own_thread

GROUP: Final = "tenantcron.tenants"
# For the statement, and for the call of a Python source.
PATIENCE: Final = timedelta(seconds=30)
KEYS: Final = ("id", "schema_name", "status", "status_reason", "weight", "labels")
# The meaning of a missing key; for the other keys null means the same.
_ABSENT: Final = {"status": "active"}
EXPECTED: Final = (
    "a table or view with its schema (public.tenants), a query (SELECT id FROM public.tenants), or "
    "python: and the name of an entry point"
)

_PYTHON: Final = "python:"
_PART: Final = r'(?:[A-Za-z_][A-Za-z0-9_$]*|"(?:[^"\x00]|"")+")'
_RELATION: Final = re.compile(rf"{_PART}\.{_PART}")
_QUERY: Final = re.compile(r"\s*(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE)

# A source should return one mapping per tenant; the actual result is checked.
SourceFunction = Callable[[], Iterable[object] | Awaitable[Iterable[object]]]


class SourceError(DeclinedError):
    """The tenant source cannot be read; nothing was changed."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__(f"the tenant source ({source}) cannot be read: {why}")


class TenantSource(Protocol):
    """Where the platform's tenants are read from."""

    @property
    def name(self) -> str:
        """Its name for users."""

    async def compare(self, database: Database) -> Compared:
        """Read it and compare it with the registered tenants; raise a SourceError on failure."""


def tenant_source(text: str) -> TenantSource:
    """Return the source that a setting names; raise a UsageError if it is invalid."""
    place = "tenant_source"
    if text.startswith(_PYTHON):
        name = text.removeprefix(_PYTHON)
        function = load_plugin(GROUP, name, place)
        if not callable(function):
            raise UsageError(f"{place}: the entry point {name!r} is not callable")
        return PythonSource(text, function)
    query = text.strip().removesuffix(";")
    if _RELATION.fullmatch(query):
        return QuerySource(query, f"SELECT * FROM {query}")  # noqa: S608 -- checked just above
    if _QUERY.match(query):
        return QuerySource("a query", query)
    raise UsageError(f"{place}: {shortened(text)!a} is not {EXPECTED}")


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A table, view or query in the database of tenantcron."""

    name: str
    query: str

    async def compare(self, database: Database) -> Compared:
        """Compare inside the database; the transaction is read-only."""
        try:
            async with database.patient(PATIENCE).transaction() as connection:
                compared = await tenant_sources.compare_query(connection, self.query)
        except ReadOnlyError as error:
            raise SourceError(
                self.name, f"it writes, or the database is read-only ({error})"
            ) from error
        except DatabaseAwayError:
            raise
        except DatabaseError as error:
            raise SourceError(self.name, str(error)) from error
        except DBAPIError as error:
            raise SourceError(self.name, first_line(error.orig)) from error
        return _with_id(compared, self.name)


@dataclass(slots=True)
class PythonSource:
    """A function of the platform."""

    name: str
    function: SourceFunction
    # The call that has not returned yet. Its thread cannot be stopped, so no other call begins.
    _call: Future[Iterable[object] | Awaitable[Iterable[object]]] | None = None

    async def compare(self, database: Database) -> Compared:
        """Call the function, then compare its result inside the database."""
        rows = _as_json(await self._returned(), self.name)
        async with database.patient(PATIENCE).transaction() as connection:
            compared = await tenant_sources.compare_rows(connection, rows)
        return _with_id(compared, self.name)

    async def _returned(self) -> Iterable[object]:
        if self._call is not None and not self._call.done():
            raise SourceError(self.name, "the last call has not returned yet")
        self._call = in_own_thread(f"tenant source {self.name}", self.function)
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                found = await asyncio.shield(self._call)
                return await found if isawaitable(found) else found
        except TimeoutError as error:
            seconds = PATIENCE.total_seconds()
            raise SourceError(self.name, f"no answer within {seconds:.0f} s") from error
        except Exception as error:
            kind = type(error).__name__
            raise SourceError(self.name, f"{kind}: {first_line(error)}") from error


def _as_json(rows: Iterable[object], name: str) -> str:
    """Return the rows as JSON with equal keys: the statement reads the keys from the first row."""
    kept = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            raise SourceError(name, f"row {number} is a {kind}, not a mapping")
        kept.append({key: row[key] for key in KEYS if key in row})
    used = [key for key in KEYS if any(key in row for row in kept)]
    try:
        full = [{key: row.get(key, _ABSENT.get(key)) for key in used} for row in kept]
        return json.dumps(full, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SourceError(name, f"a row cannot be written as JSON: {error}") from error


def _with_id(compared: Compared, name: str) -> Compared:
    if compared.given and "id" not in compared.columns:
        columns = ", ".join(sorted(compared.columns))
        raise SourceError(name, f"there is no column `id`, only {columns}")
    return compared
