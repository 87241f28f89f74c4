"""Cached definitions of schedules. The id of a definition is a digest of its content."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.core.requirements import TargetKind, requirement
from tenantcron.core.values import JsonObject
from tenantcron.schedules.settings import ScheduleSettings, read_settings
from tenantcron.schedules.targets import HttpTarget, read_target
from tenantcron.store.rows import schedule_definitions


class UnreadableError(TenantcronError):
    """A definition that is missing, or that was edited manually and cannot be read."""


@dataclass(frozen=True, slots=True)
class Readable:
    """The settings of a schedule, and its target if no Python handler runs the saga."""

    settings: ScheduleSettings
    target: HttpTarget | None

    def required(self, saga: str) -> str:
        """Return the requirement that a replica must meet to run a saga with this definition."""
        return requirement(saga, None if self.target is None else TargetKind.HTTP.value)


DefinitionResult = Readable | UnreadableError


class Definitions:
    """A least-recently-used cache of definitions, with at most `size` entries."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
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
        stored = await schedule_definitions.read(connection, missing)
        fetched = {key: _parsed(stored.get(key)) for key in missing}
        self._kept.update({key: fetched[key] for key in stored})
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return fetched


def _parsed(stored: JsonObject | None) -> DefinitionResult:
    if stored is None:
        return UnreadableError("its definition is missing: apply the manifest again")
    try:
        return Readable(read_settings(stored), read_target(stored))
    except TenantcronError as error:
        return UnreadableError(str(error))
