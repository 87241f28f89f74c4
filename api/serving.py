"""The server process: sets up the service and serves until it is stopped."""

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import structlog
import uvicorn
from sqlalchemy.exc import DBAPIError
from starlette.types import ASGIApp

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.oidc import Issuer
from tenantcron.api.connections import ConnectionLimits, bounded_protocol
from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.settings import Settings
from tenantcron.manifests.files import Policies
from tenantcron.manifests.policy import FILE_NAME
from tenantcron.scheduler.metrics.counts import RequestCounts
from tenantcron.scheduler.metrics.prometheus import Metrics
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.callbacks import Callbacks
from tenantcron.scheduler.steps.idempotency_retention import Retention
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.live_tokens import LiveTokens
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.service.callers import LOOPBACK, Callers, OidcIssuer
from tenantcron.service.oidc_key_sets import IssuerKeySet
from tenantcron.service.rate_limits import Allowances, ReportLimit
from tenantcron.service.work import Service
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.read_replica import ReadReplica
from tenantcron.store.embedded.ending import end_after, end_at_once
from tenantcron.store.rows import api_usage, idempotency_keys
from tenantcron.store.schema import api_role
from tenantcron.targets.capabilities import Capabilities

log = structlog.get_logger()

_EARLY_START: Final = "Started server process"
_SWEEP_EVERY: Final = 3600.0
# Seconds after `drain` at which the process is ended.
_LONGEST_STOP: Final = 9.5


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the API, and whether it serves callers without a token."""

    host: str
    port: int
    anonymous: bool = False

    def __post_init__(self) -> None:
        if self.anonymous and self.host not in LOOPBACK:
            raise UsageError(
                f"--anonymous would give every client that can reach {self.host} full access: use "
                f"--host {LOOPBACK[0]}, or create tokens with `tenantcron token create`"
            )


async def open_service(
    database: Database,
    settings: Settings,
    *,
    anonymous: bool,
    read_replica: ReadReplica | None = None,
) -> Service:
    """Return the service on a database; log a warning for each missing protection."""
    patient = database.patient(settings.api_timeout)
    async with database.transaction() as connection:
        usable = await api_role.is_usable(connection)
    if not usable:
        log.warning(
            "api_without_row_security", hint="run `tenantcron migrate` to create tenantcron_api"
        )
    if anonymous:
        log.warning("api_anonymous", hint="every process on this machine has full access")
    keys, requests = _signing_keys(patient, settings), RequestCounts()
    return Service(
        database=patient,
        settings=settings,
        policy=Policies(None).of(settings.folder / FILE_NAME),
        callers=Callers(
            patient,
            settings.api_rate_limit,
            Allowances(patient, settings.api_rate_limit, settings.api_timeout),
            _issuer(settings),
            anonymous,
        ),
        row_level_security=usable,
        metrics=Metrics(database, settings, requests=requests).scrape,
        requests=requests,
        read_replica=read_replica,
        key_set=None if keys is None else keys.key_set,
        live_tokens=None if keys is None else LiveTokens(keys, settings),
        callbacks=Callbacks(
            _recorder(patient, settings), ReportLimit(patient, settings.api_rate_limit).admit
        ),
    )


def _recorder(database: Database, settings: Settings) -> Replica:
    """Return a replica that runs nothing, but records the end of attempts."""
    policy = Policies(None).of(settings.folder / FILE_NAME)
    retention = Retention(policy.idempotency_retention)
    return Replica(database, settings, capabilities=Capabilities(), retention=retention)


def _signing_keys(database: Database, settings: Settings) -> SigningKeys | None:
    """Return the keys of execution tokens; None if the settings have no keys."""
    material = KeyMaterial(settings)
    if material.own() is None and not material.masters():
        return None
    return SigningKeys(database, material, Attribution(None))


def _issuer(settings: Settings) -> OidcIssuer | None:
    issuer, audience, url = settings.oidc_issuer, settings.oidc_audience, settings.oidc_jwks_url
    if issuer and audience and url:
        return OidcIssuer(Issuer(issuer, audience), IssuerKeySet(url))
    if issuer or audience or url:
        raise UsageError("set all of oidc_issuer, oidc_audience and oidc_jwks_url, or none")
    return None


async def serve(app: ASGIApp, service: Service, address: Address) -> None:
    """Serve an application until SIGTERM or Ctrl-C, then finish the running requests."""
    async with _sweeping(service.database):
        with service.checking:
            await _ApiServer(server_config(app, service, address), service).serve()
    log.info("api_stopped")


def server_config(
    app: ASGIApp, service: Service, address: Address, bounds: ConnectionLimits | None = None
) -> uvicorn.Config:
    """Return the configuration of the server; the default limits are those of the settings."""
    settings = service.settings
    return uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        http=bounded_protocol(bounds or ConnectionLimits(settings.api_connections)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Callers are identified by tokens, never by a header that any client can send.
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.drain.total_seconds()),
    )


def _explained(error: OSError) -> str:
    """Return why an address cannot be used, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use: stop the other program, or choose another --port"
        case errno.EACCES:
            return "permission denied: choose a --port above 1023"
        case errno.EADDRNOTAVAIL:
            return "this machine does not have that address: choose another --host"
    return error.strerror or str(error)


def _is_message(record: logging.LogRecord) -> bool:
    """Whether uvicorn logs a message that `startup` does not replace.

    It also logs the bare exception that `startup` explains, and a start before it listens.
    """
    return not isinstance(record.msg, OSError) and not record.msg.startswith(_EARLY_START)


class _ApiServer(uvicorn.Server):
    """Logs its start and shuts down gracefully on a signal.

    uvicorn itself would exit if it cannot listen, and raise the signal again after the shutdown.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        logging.getLogger("uvicorn.error").addFilter(_is_message)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen; raise UsageError if the address cannot be used."""
        where = f"{self.config.host}:{self.config.port}"
        try:
            await super().startup(sockets)
        except SystemExit as end:
            why = end.__context__
            cause = _explained(why) if isinstance(why, OSError) else why
            raise UsageError(f"cannot listen on {where}: {cause}") from why
        log.info(
            "api_started",
            address=f"http://{where}",
            row_level_security=self._service.row_level_security,
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down at the first signal; end the process at the second."""
        loop, signals = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)

        def stop(number: int) -> None:
            if self.should_exit:
                end_at_once()
            end_after(self._service.settings.drain.total_seconds() + _LONGEST_STOP)
            self.handle_exit(number, None)

        for number in signals:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
                signal.signal(number, lambda _, __: end_at_once())


@asynccontextmanager
async def _sweeping(database: Database) -> AsyncIterator[None]:
    """Delete old idempotency keys and request counts once an hour during the block."""
    sweeping = asyncio.create_task(_sweep(database))
    try:
        yield
    finally:
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping


async def _sweep(database: Database) -> None:
    while True:
        try:
            async with database.transaction() as connection:
                forgotten = await idempotency_keys.forget_old(connection)
                callers = await api_usage.forget_old(connection)
            log.debug("idempotency_keys_forgotten", keys=forgotten, callers=callers)
        except (TenantcronError, DBAPIError) as error:
            log.warning("sweep_failed", error=str(error))
        await asyncio.sleep(_SWEEP_EVERY)
