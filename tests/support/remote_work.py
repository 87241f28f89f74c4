"""Attempts of remote workers: a schedule with callbacks, a service that accepts, and the API."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from support.handlers import NoDatabase
from support.minting import MARIA
from support.scheduling import Row, Scheduling
from support.services import Service, answering, service
from support.serving import served

from tenantcron.api.serving import open_service
from tenantcron.core.settings import Settings
from tenantcron.core.targets import HttpTarget
from tenantcron.manifests.policy import Policy, default_policy
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.callbacks import Callbacks
from tenantcron.scheduler.steps.deliver import Deliveries
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.scheduler.steps.hand_over import HandOvers
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.live_tokens import LiveTokens
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.scheduler.tokens.token_minting import Minter
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.schedules.targets import write_target
from tenantcron.store.connection.engine import Database
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.runner import HttpRunner
from tenantcron.targets.python.registry import Handlers

HEARTBEAT = timedelta(seconds=30)


async def just_begun(_: Claimed, __: ScheduleSettings) -> timedelta:
    """Return that the series of attempts has begun now."""
    return timedelta(0)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker with the headers of the request that started it."""

    headers: Mapping[str, str]

    async def report(self, action: str, token: str | None = None, **body: Any) -> httpx.Response:
        """Send a report to the API."""
        bearer = token or self.headers["x-tenantcron-callback-token"]
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {bearer}"}) as client:
            url = f"{self.headers['x-tenantcron-callback-url']}:{action}"
            return await client.post(url, json=body)


@dataclass(frozen=True, slots=True)
class RemoteWork:
    """A schedule whose target accepts attempts, and an API for its reports."""

    scheduling: Scheduling
    target: Service
    url: str
    executor: Executor

    async def start(self) -> Attempt:
        """Claim the pending execution, and call the target."""
        replica = self.scheduling.replica()
        (claimed,) = (await self.scheduling.claim(replica)).started
        async with self.scheduling.database.transaction() as connection:
            found = await replica.definitions.read(connection, {claimed.definition_id})
        definition = found[claimed.definition_id]
        assert not isinstance(definition, Exception)
        attempt = await self.executor.run(claimed, definition.settings, definition.target)
        if not attempt.accepted:
            await finish_batch(replica, [attempt])
        return attempt

    async def accepted(self) -> Worker:
        """Start an attempt that the target accepts, and return its worker."""
        attempt = await self.start()
        assert attempt.accepted, attempt
        return self.last_worker

    @property
    def last_worker(self) -> Worker:
        """The worker of the last request."""
        return Worker(self.target.received[-1].headers)

    async def row(self) -> Row:
        """Return the execution."""
        (row,) = await self.scheduling.rows()
        return row


def _policy(target: Service) -> Policy:
    default = default_policy()
    egress = default.egress._replace(
        hosts=("http://127.0.0.1",), networks=("127.0.0.0/8",), ports=(target.port,)
    )
    return default._replace(egress=egress)


@asynccontextmanager
async def remote_work(
    database: Database, folder: Path, **definition: Any
) -> AsyncIterator[RemoteWork]:
    """Provide an execution that is due, with a target that answers 202."""
    settings = Settings(folder=folder, master_key=os.urandom(32).hex(), api_rate_limit=100_000)
    scheduling = Scheduling(database, settings)
    await scheduling.prepare()
    async with service(answering(202)) as target:
        http = HttpTarget(f"{target.url}/run", "POST", {}, heartbeat=HEARTBEAT)
        options = {"timeout": "10m", "target": write_target(http)["target"], **definition}
        await scheduling.schedule("report", **options)
        keys = SigningKeys(database, KeyMaterial(settings), MARIA, scheduling.clock)
        opened = await open_service(database, settings, anonymous=False)
        api = replace(
            opened,
            live_tokens=LiveTokens(keys, settings, scheduling.clock),
            callbacks=Callbacks(scheduling.replica("api")),
        )
        caller = HttpClient(_policy(target).egress)
        async with served(api) as url:
            minter = Minter(database, settings, scheduling.clock)
            deliveries = Deliveries(
                {"http": HttpRunner(caller)},
                _policy(target),
                just_begun,
                minter,
                HandOvers(database, minter, url, scheduling.clock),
            )
            executor = Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries)
            scheduling.clock.advance(hours=1)
            assert await scheduling.fire() == 1
            yield RemoteWork(scheduling, target, url, executor)
        await caller.close()
