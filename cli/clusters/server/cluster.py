"""A cluster through a server of its API."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.cli.clusters.server.executions import ServerExecutions
from tenantcron.cli.clusters.server.platform import (
    ServerInspection,
    ServerKeys,
    ServerLimits,
    ServerTokens,
    ServerWebhooks,
)
from tenantcron.cli.clusters.server.schedules import ServerSchedules
from tenantcron.cli.clusters.server.tasks import ServerTasks
from tenantcron.cli.clusters.server.tenants import ServerTenants
from tenantcron.cli.clusters.targets import ChosenServer
from tenantcron.client import AsyncClient, cluster
from tenantcron.client.addresses import UnsendableTokenError
from tenantcron.client.errors import another_version
from tenantcron.core.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerCluster:
    """The cluster of a server."""

    caller: ServerCaller

    @property
    def executions(self) -> ServerExecutions:
        """Its executions."""
        return ServerExecutions(self.caller)

    @property
    def schedules(self) -> ServerSchedules:
        """Its schedules."""
        return ServerSchedules(self.caller)

    @property
    def tasks(self) -> ServerTasks:
        """Its tasks."""
        return ServerTasks(self.caller)

    @property
    def tenants(self) -> ServerTenants:
        """Its tenants."""
        return ServerTenants(self.caller)

    @property
    def limits(self) -> ServerLimits:
        """Its concurrency limits."""
        return ServerLimits(self.caller)

    @property
    def tokens(self) -> ServerTokens:
        """Its API tokens."""
        return ServerTokens(self.caller)

    @property
    def keys(self) -> ServerKeys:
        """Its signing keys."""
        return ServerKeys(self.caller)

    @property
    def webhooks(self) -> ServerWebhooks:
        """Its webhooks."""
        return ServerWebhooks(self.caller)

    @property
    def inspection(self) -> ServerInspection:
        """Its health and its records."""
        return ServerInspection(self.caller)

    async def now(self) -> datetime:
        """Return the time of the server, to the second.

        It is the `Date` of the last response: the machines of a cluster have synchronised clocks,
        and relative times are given by people.
        """
        client = self.caller.client
        if client.server_time is None:
            await self.caller.send(cluster.liveness())
        if client.server_time is None:
            raise another_version(client.server)
        return client.server_time


def on_server(target: ChosenServer, work: Callable[[ClusterAccess], Awaitable[T]]) -> T:
    """Run work on a server."""

    async def run() -> T:
        async with client_of(target) as client:
            return await work(ServerCluster(ServerCaller(client, target.token_source)))

    return asyncio.run(run())


def client_of(target: ChosenServer) -> AsyncClient:
    """Return a client for a server."""
    try:
        return AsyncClient(target.url, target.token())
    except UnsendableTokenError as error:
        raise UsageError(f"{target.token_source}: {error}") from error
    except UsageError as error:
        raise UsageError(f"{target.origin}: {error}") from error
