"""Definitions of schedules, which are cached, and of tasks.

The id of a schedule's definition is a digest of its content. A task has its own definition with its
payload: it is read for each attempt, and only its settings are cached, because most are equal.
"""

import json
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.core.requirements import at_host, requirement
from tenantcron.core.target_hosts import host_of
from tenantcron.core.targets import Target
from tenantcron.schedules.settings import ScheduleSettings, read_settings
from tenantcron.schedules.targets import read_target
from tenantcron.schedules.task_request import task_settings
from tenantcron.store.rows import schedule_definitions
from tenantcron.store.rows.schedule_definitions import StoredDefinition


class UnreadableError(TenantcronError):
    """A definition that is missing, or that was edited manually and cannot be read."""


@dataclass(frozen=True, slots=True)
class Readable:
    """The settings of a schedule, and its target if no Python handler runs the saga."""

    settings: ScheduleSettings
    target: Target | None
    # Its requirement, if the host of its target has a rate limit.
    limited: str | None = None

    def required(self, saga: str) -> str:
        """Return the requirement that a replica must meet to run a saga with this definition."""
        return self.limited or requirement(saga, None if self.target is None else self.target.kind)


DefinitionResult = Readable | UnreadableError


class Definitions:
    """A least-recently-used cache of definitions, with at most `size` entries.

    `limited_hosts` are the hosts with a rate limit.
    """

    def __init__(self, size: int = 4096, limited_hosts: Collection[str] = ()) -> None:
        self._size = size
        self._limited_hosts = frozenset(limited_hosts)
        self._kept: OrderedDict[UUID, DefinitionResult] = OrderedDict()

    async def read(
        self, connection: AsyncConnection, ids: Collection[UUID]
    ) -> dict[UUID, DefinitionResult]:
        """Return the definitions, with one query for those that are not cached.

        A missing definition is not cached, because an apply may restore it.
        """
        requested = set(ids)
        found = {key: self._kept[key] for key in requested if key in self._kept}
        for key in found:
            self._kept.move_to_end(key)
        if missing := requested - found.keys():
            found |= await self._fetch(connection, missing)
        return found

    def cached(self, ids: Collection[UUID]) -> dict[UUID, DefinitionResult] | None:
        """Return the definitions if all of them are cached."""
        if any(key not in self._kept for key in ids):
            return None
        return {key: self._kept[key] for key in ids}

    async def _fetch(
        self, connection: AsyncConnection, missing: Collection[UUID]
    ) -> dict[UUID, DefinitionResult]:
        stored = await schedule_definitions.read_all(connection, missing)
        fetched = {key: self._parsed(stored.get(key)) for key in missing}
        shared = [key for key, definition in stored.items() if definition.payload is None]
        self._kept.update({key: fetched[key] for key in shared})
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return fetched

    def limited(self, target: Target | None) -> str | None:
        """Return the requirement of a target whose host has a rate limit; None without one."""
        host = host_of(target) if self._limited_hosts else None
        if target is None or host is None or host not in self._limited_hosts:
            return None
        return at_host(target.kind, host)

    def _parsed(self, stored: StoredDefinition | None) -> DefinitionResult:
        if stored is None:
            return UnreadableError("its definition is missing: apply the manifest again")
        parse = _of_schedule if stored.payload is None else _of_task
        try:
            settings, target = parse(stored.definition)
        except TenantcronError as error:
            return UnreadableError(str(error))
        if stored.payload is not None:
            settings = settings._replace(payload=stored.payload)
        return Readable(settings, target, self.limited(target))


_Parsed = tuple[ScheduleSettings, Target | None]


def _of_schedule(stored: str | None) -> _Parsed:
    definition = json.loads(stored or "null")
    return read_settings(definition), read_target(definition)


@lru_cache(maxsize=1024)
def _of_task(stored: str | None) -> _Parsed:
    definition = None if stored is None else json.loads(stored)
    return task_settings(definition), read_target(definition or {})
