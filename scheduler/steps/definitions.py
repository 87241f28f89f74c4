"""What schedules say beside their timetable, by the id of its content, which never changes."""

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
    """A definition that somebody wrote by hand, and that says nothing."""


@dataclass(frozen=True, slots=True)
class Readable:
    """How occurrences are treated, and what runs the saga if it is not a Python handler."""

    settings: ScheduleSettings
    target: HttpTarget | None

    def required(self, saga: str) -> str:
        """Return what a replica needs to run a saga so."""
        return requirement(saga, None if self.target is None else TargetKind.HTTP.value)


Definition = Readable | UnreadableError


class Definitions:
    """Reads definitions once and keeps those that were used last, never more than `size`."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._kept: OrderedDict[UUID, Definition] = OrderedDict()

    async def read(
        self, connection: AsyncConnection, ids: Collection[UUID]
    ) -> dict[UUID, Definition]:
        """Return the definitions, with one query for those that are not known yet.

        One that is missing is looked for again the next time: an apply may have brought it back.
        """
        wanted = set(ids)
        found = {one: self._kept[one] for one in wanted if one in self._kept}
        for one in found:
            self._kept.move_to_end(one)
        if missing := wanted - found.keys():
            found |= await self._fetch(connection, missing)
        return found

    def known(self, ids: Collection[UUID]) -> dict[UUID, Definition] | None:
        """Return the definitions if none of them has to be read."""
        if any(one not in self._kept for one in ids):
            return None
        return {one: self._kept[one] for one in ids}

    async def _fetch(
        self, connection: AsyncConnection, missing: Collection[UUID]
    ) -> dict[UUID, Definition]:
        stored = await schedule_definitions.read(connection, missing)
        fetched = {one: _understood(stored.get(one)) for one in missing}
        self._kept.update({one: fetched[one] for one in stored})
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return fetched


def _understood(stored: JsonObject | None) -> Definition:
    if stored is None:
        return UnreadableError("its definition is missing: apply the manifest again")
    try:
        return Readable(read_settings(stored), read_target(stored))
    except TenantcronError as error:
        return UnreadableError(str(error))
