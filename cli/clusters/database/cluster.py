"""A cluster through its database."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.cli.clusters.database.executions import DatabaseExecutions
from tenantcron.cli.clusters.database.inspection import DatabaseInspection
from tenantcron.cli.clusters.database.platform import (
    DatabaseLimits,
    DatabaseTokens,
    DatabaseWebhooks,
)
from tenantcron.cli.clusters.database.schedules import DatabaseSchedules
from tenantcron.cli.clusters.database.tasks import DatabaseTasks
from tenantcron.cli.clusters.database.tenants import DatabaseTenants
from tenantcron.cli.clusters.platform import KeyOperations
from tenantcron.cli.database import with_database
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatabaseCluster:
    """The cluster of a database."""

    caller: LocalCaller

    @property
    def executions(self) -> DatabaseExecutions:
        """Its executions."""
        return DatabaseExecutions(self.caller)

    @property
    def schedules(self) -> DatabaseSchedules:
        """Its schedules."""
        return DatabaseSchedules(self.caller)

    @property
    def tasks(self) -> DatabaseTasks:
        """Its tasks."""
        return DatabaseTasks(self.caller)

    @property
    def tenants(self) -> DatabaseTenants:
        """Its tenants."""
        return DatabaseTenants(self.caller)

    @property
    def limits(self) -> DatabaseLimits:
        """Its concurrency limits."""
        return DatabaseLimits(self.caller)

    @property
    def tokens(self) -> DatabaseTokens:
        """Its API tokens."""
        return DatabaseTokens(self.caller)

    @property
    def keys(self) -> KeyOperations:
        """Its signing keys; cryptography is imported only for them."""
        from tenantcron.cli.clusters.database.keys import DatabaseKeys  # noqa: PLC0415 -- above

        return DatabaseKeys(self.caller)

    @property
    def webhooks(self) -> DatabaseWebhooks:
        """Its webhooks."""
        return DatabaseWebhooks(self.caller)

    @property
    def inspection(self) -> DatabaseInspection:
        """Its health and its records."""
        return DatabaseInspection(self.caller)

    async def now(self) -> datetime:
        """Return the time of the database."""
        async with self.caller.database.transaction() as connection:
            return await database_time(connection)


def on_database(actor: str | None, work: Callable[[ClusterAccess], Awaitable[T]]) -> T:
    """Run work on the configured database."""

    async def run(database: Database) -> T:
        return await work(DatabaseCluster(LocalCaller(database, actor)))

    return with_database(run)
