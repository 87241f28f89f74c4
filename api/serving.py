"""Serving: opens the database, says under which conditions it serves, and serves until stopped."""

import asyncio
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
from tenantcron.scheduler.metrics.prometheus import Metrics
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.live_tokens import LiveTokens
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.service.callers import LOOPBACK, Callers, OidcIssuer
from tenantcron.service.oidc_key_sets import IssuerKeySet
from tenantcron.service.rate_limits import Allowances
from tenantcron.service.work import Service
from tenantcron.store.connection.engine import Database
from tenantcron.store.embedded.ending import end_after, end_at_once
from tenantcron.store.rows import api_usage, idempotency_keys
from tenantcron.store.schema import api_role

log = structlog.get_logger()

_SWEEP_EVERY: Final = 3600.0
# Seconds after `drain` when a stop is forced.
_LONGEST_STOP: Final = 9.5


@dataclass(frozen=True, slots=True)
class Address:
    """Where the API listens, and whether it serves callers who prove nothing."""

    host: str
    port: int
    anonymous: bool = False

    def __post_init__(self) -> None:
        if self.anonymous and self.host not in LOOPBACK:
            raise UsageError(
                f"--anonymous serves everybody who can reach {self.host}: it goes with "
                f"--host {LOOPBACK[0]} only; make tokens with `tenantcron token create`"
            )


async def open_service(database: Database, settings: Settings, *, anonymous: bool) -> Service:
    """Return the service on a database, and say what it does without."""
    patient = database.patient(settings.api_timeout)
    async with database.transaction() as connection:
        usable = await api_role.is_usable(connection)
    if not usable:
        log.warning("api_without_row_security", hint="let `tenantcron migrate` make tenantcron_api")
    if anonymous:
        log.warning("api_anonymous", hint="everybody on this machine may do everything")
    keys = _signing_keys(patient, settings)
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
        metrics=Metrics(database, settings).scrape,
        key_set=None if keys is None else keys.key_set,
        live_tokens=None if keys is None else LiveTokens(keys, settings),
    )


def _signing_keys(database: Database, settings: Settings) -> SigningKeys | None:
    """Return the keys of execution tokens; None without a master key, or keys of the settings."""
    material = KeyMaterial(settings)
    if material.own() is None and not material.masters():
        return None
    return SigningKeys(database, material, Attribution(None))


def _issuer(settings: Settings) -> OidcIssuer | None:
    issuer, audience, url = settings.oidc_issuer, settings.oidc_audience, settings.oidc_jwks_url
    if issuer and audience and url:
        return OidcIssuer(Issuer(issuer, audience), IssuerKeySet(url))
    if issuer or audience or url:
        raise UsageError("oidc_issuer, oidc_audience and oidc_jwks_url go together: set all three")
    return None


async def serve(app: ASGIApp, service: Service, address: Address) -> None:
    """Serve an application until SIGTERM or Ctrl-C; requests that have begun are answered."""
    async with _sweeping(service.database):
        with service.checking:
            await _ApiServer(server_config(app, service, address), service).serve()
    log.info("api_stopped")


def server_config(
    app: ASGIApp, service: Service, address: Address, bounds: ConnectionLimits | None = None
) -> uvicorn.Config:
    """Return how the server listens; without bounds those of the settings hold."""
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
        # Who is behind a proxy is decided by tokens, never by a header that anybody can send.
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.drain.total_seconds()),
    )


class _ApiServer(uvicorn.Server):
    """Says when it serves, and stops in order on a signal.

    uvicorn's own would end the process where it cannot listen, and send a signal on to us
    afterwards.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; a UsageError if that cannot be done there."""
        where = f"{self.config.host}:{self.config.port}"
        try:
            await super().startup(sockets)
        except SystemExit as end:
            why = end.__context__
            said = why.strerror if isinstance(why, OSError) else why
            raise UsageError(f"nothing can be served at {where}: {said}") from why
        log.info(
            "api_started",
            address=f"http://{where}",
            row_level_security=self._service.row_level_security,
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop serving at the first signal; the second ends the process, also after serving."""
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
    """Delete old idempotency keys and request counts once an hour, meanwhile."""
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
