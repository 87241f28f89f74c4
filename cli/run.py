"""`tenantcron run`: runs a replica of the scheduler. Any number of replicas share the work."""

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import FrameType

from tenantcron.actor.logs import add_actor
from tenantcron.cli.clusters.choice import database_only
from tenantcron.cli.database import loop_factory, migrated_database
from tenantcron.cli.environment import current_settings
from tenantcron.cli.login_rights import warn_of_excess_rights
from tenantcron.cli.operating import add_database
from tenantcron.cli.server_identity import warn_of_unverified_server
from tenantcron.core.durations import parse_duration
from tenantcron.core.egress import read_url
from tenantcron.core.errors import UsageError
from tenantcron.core.logs import configure_logs
from tenantcron.core.memory import can_measure, collect_rarely
from tenantcron.core.names import NAME_EXPECTED, is_name
from tenantcron.core.requirements import SAGA, TargetKind
from tenantcron.core.setting_readers import whole_number
from tenantcron.core.settings import (
    MOST_PORTS,
    HandlerRole,
    Settings,
    has_keys,
)
from tenantcron.events.opening import NamedBus, open_bus
from tenantcron.events.outbox import Outbox
from tenantcron.events.publisher import BusPublisher
from tenantcron.events.webhooks.requests import WebhookSender
from tenantcron.manifests.language.targets import check_default_target
from tenantcron.manifests.policy import Policy, policy_in
from tenantcron.provider.plugins import load_providers
from tenantcron.provider.protocol import ScheduleProvider
from tenantcron.provider.schedule_limits import BoundedProvider, Bounds, revisit
from tenantcron.provider.static import static_provider
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.replica.exits import Exit
from tenantcron.scheduler.replica.lock_waits import LockWatch
from tenantcron.scheduler.replica.replica_loops import ReplicaRun
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.shutdown import LONGEST_STOP
from tenantcron.scheduler.steps.definitions import Definitions
from tenantcron.scheduler.steps.deliver import Deliveries, begun_in
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.hand_over import HandOvers
from tenantcron.scheduler.steps.handler_connections import WARM, HandlerConnections
from tenantcron.scheduler.steps.handler_logins import HandlerLogins
from tenantcron.scheduler.steps.idempotency_retention import Retention
from tenantcron.scheduler.tokens.token_minting import Minter
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.store.embedded.ending import end_after, end_at_once
from tenantcron.targets.authorising import Authoriser
from tenantcron.targets.capabilities import (
    Capabilities,
    CapabilityLimits,
    ServedKinds,
    capabilities,
)
from tenantcron.targets.contract import RunnerServices, TargetRunner
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.kinds import installed, open_runner
from tenantcron.targets.output import keep_line
from tenantcron.targets.owner_check import OwnerCheck
from tenantcron.targets.python.isolation.forkserver import Forkserver
from tenantcron.targets.python.isolation.isolated import isolate, wants_processes
from tenantcron.targets.python.registry import Handlers, load_handlers
from tenantcron.targets.tracing import Tracing, tracing
from tenantcron.tenants.source.follow import Follower
from tenantcron.tenants.source.reading import TenantSource, tenant_source

_EXAMPLES = """\
examples:
  tenantcron run --handlers billing.sagas          run until SIGTERM or Ctrl-C, then finish the
                                                   running executions; a second one stops at once
  tenantcron run --handlers billing.sagas --once   run what is due now, then stop
  tenantcron run --handlers billing.sagas --for 8h
  tenantcron run --service billing                 act as system:scheduler:billing
  tenantcron run --handlers reports --only 'saga:report_*'
                                                   run only these sagas
  tenantcron run --targets http                    call HTTP targets without loading handlers
"""

# Timeout of the query that finds out which lock a slow statement waits for.
_LOOK = timedelta(seconds=3)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Run the scheduler: fire due occurrences and run them with Python handlers or HTTP targets."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--handlers",
        action="append",
        default=[],
        metavar="MODULE",
        help="load handlers from this module",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="run only saga:PATTERN"
    )
    parser.add_argument(
        "--targets", action="append", metavar="KIND", help="serve these targets: http, or none"
    )
    parser.add_argument("--policy", type=Path, metavar="FILE", help="use this tenantcron.toml")
    parser.add_argument(
        "--metrics-port", metavar="PORT", help="serve /metrics, /healthz and /readyz on this port"
    )
    parser.add_argument(
        "--metrics-host",
        metavar="ADDRESS",
        help="serve them on this address (the setting, or 127.0.0.1)",
    )
    parser.add_argument(
        "--service", metavar="NAME", help="use this service name (the setting, or scheduler)"
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--once", action="store_true", help="run what is due now, then stop")
    until.add_argument("--for", dest="span", metavar="TIME", help="stop after TIME, such as 8h")
    add_database(parser)
    parser.set_defaults(run=database_only(run))


def run(arguments: argparse.Namespace) -> int:
    """Run until stopped."""
    settings = _settings(arguments)
    span = parse_duration(arguments.span).total_seconds() if arguments.span else None
    # Before the database is opened, so that an import error is reported at once.
    handlers = load_handlers(arguments.handlers)
    source = tenant_source(settings.tenant_source) if settings.tenant_source else None
    plugged_in = load_providers(settings.providers)
    _check_keys(settings)
    _check_memory(settings)
    bus = open_bus(settings)
    policy = policy_in(settings.folder, arguments.policy)
    own = _capabilities(handlers, policy, arguments)
    # After the handlers, which may set up tracing.
    spans = tracing()
    caller = _caller(policy, settings, spans)
    runners = _runners(own, caller, spans, settings)
    configure_logs(settings, sys.stderr, add_actor, keep_line)
    collect_rarely()
    authoriser = _authoriser(settings, policy, handlers, caller)
    with _isolated(handlers, arguments.handlers, settings) as handlers:
        parts = Parts(
            settings,
            handlers,
            policy,
            caller,
            authoriser,
            spans,
            own,
            source,
            plugged_in,
            runners,
            bus,
        )
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_serve(parts, once=arguments.once, span=span))


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a scheduler that need no database."""

    settings: Settings
    handlers: Handlers
    policy: Policy
    caller: HttpClient
    authoriser: Authoriser | None
    tracing: Tracing | None
    capabilities: Capabilities
    source: TenantSource | None = None
    plugged_in: tuple[ScheduleProvider, ...] = ()
    runners: Mapping[str, TargetRunner] = field(default_factory=dict)
    bus: NamedBus | None = None


def _capabilities(
    handlers: Handlers, policy: Policy, arguments: argparse.Namespace
) -> Capabilities:
    """Return the capabilities of this replica; raise an error if the default target is invalid."""
    faults = [*check_default_target(policy)]
    if faults:
        raise UsageError("\n".join(["the default_target of the policy is not valid", *faults]))
    targets = None if arguments.targets is None else tuple(arguments.targets)
    limits = CapabilityLimits(tuple(arguments.only), targets)
    return capabilities(handlers, limits, _served_kinds(policy)).with_limits(policy.rate_limits)


def _served_kinds(policy: Policy) -> ServedKinds:
    default = policy.default_target
    http = (TargetKind.HTTP.value,)
    return ServedKinds(
        known=(*http, *policy.target_kinds),
        usable=(*(http if policy.calls_hosts else ()), *installed(policy.target_kinds)),
        default=None if default is None else default.kind,
    )


def _runners(
    own: Capabilities, caller: HttpClient, spans: Tracing | None, settings: Settings
) -> dict[str, TargetRunner]:
    """Open the runners of the kinds that this replica serves."""
    services = RunnerServices(caller, spans, settings)
    kinds = (named for named in own.named if not named.startswith(SAGA))
    return {kind: open_runner(kind, services) for kind in kinds}


@contextmanager
def _isolated(handlers: Handlers, modules: Sequence[str], settings: Settings) -> Iterator[Handlers]:
    """Start the fork server if a handler runs in its own process."""
    if not wants_processes(handlers):
        yield handlers
        return
    forkserver = Forkserver(modules, WARM, settings.log_level.value)
    try:
        yield isolate(handlers, forkserver)
    finally:
        forkserver.close()


def _settings(arguments: argparse.Namespace) -> Settings:
    settings = current_settings()
    if arguments.metrics_host is not None:
        settings = replace(settings, metrics_host=arguments.metrics_host)
    if arguments.metrics_port is not None:
        port = whole_number(arguments.metrics_port, "--metrics-port", MOST_PORTS)
        settings = replace(settings, metrics_port=port)
    if arguments.service is None:
        return settings
    if not is_name(arguments.service):
        raise UsageError(f"--service {arguments.service!r} is not {NAME_EXPECTED}")
    return replace(settings, service=arguments.service)


def _check_memory(settings: Settings) -> None:
    if settings.max_memory is not None and not can_measure():
        raise UsageError("max_memory needs /proc, which this system does not have: remove it")


def _check_keys(settings: Settings) -> None:
    """Report an unreadable secret at start, not when the first handler requests a token."""
    if has_keys(settings):
        from tenantcron.scheduler.tokens.key_material import KeyMaterial  # noqa: PLC0415 -- slow import

        material = KeyMaterial(settings)
        material.masters()
        material.own()


def _caller(policy: Policy, settings: Settings, spans: Tracing | None) -> HttpClient:
    """Return the HTTP client; open it only if the policy allows a host."""
    caller = HttpClient(policy.egress, ca_file=settings.ca_file, tracing=spans)
    if policy.calls_hosts:
        caller.open()
    return caller


def _authoriser(
    settings: Settings, policy: Policy, handlers: Handlers, caller: HttpClient
) -> Authoriser | None:
    """Return the authoriser of owners, if any; raise an error for one that could never decide."""
    if settings.owner_check_url is None:
        if settings.owner_check_audience is not None:
            raise UsageError(
                "owner_check_audience needs owner_check_url: set it or remove the audience"
            )
        return handlers.authoriser
    if handlers.authoriser is not None:
        raise UsageError(
            f"both owner_check_url and the authoriser {handlers.authoriser.place} would check "
            "owners: remove one of them"
        )
    url = read_url(settings.owner_check_url)
    if url is None:
        raise UsageError("owner_check_url is not a valid URL: write https://host/path")
    refusal = policy.egress.refusal(url)
    if refusal is not None:
        raise UsageError(f"owner_check_url is not allowed: {refusal.message}; {refusal.hint}")
    if settings.owner_check_audience is not None and not has_keys(settings):
        raise UsageError(
            "owner_check_audience needs execution tokens, but there is no key to sign them: set "
            "master_key, see docs/identity.md"
        )
    return OwnerCheck(caller, settings.owner_check_url, settings.owner_check_audience)


async def _serve(parts: Parts, *, once: bool, span: float | None) -> int:
    settings, policy = parts.settings, parts.policy
    warn_of_unverified_server(settings)
    async with migrated_database() as opened:
        await warn_of_excess_rights(opened, settings, "tenantcron_run")
        patient = opened.patient(settings.database_timeout)
        database = replace(patient, on_slow=LockWatch(opened.patient(_LOOK)))
        retention = Retention(policy.idempotency_retention)
        replica = Replica(
            database,
            settings,
            capabilities=parts.capabilities,
            definitions=Definitions(limited_hosts=policy.rate_limits),
            retention=retention,
            tracing=parts.tracing,
            rate_limits=policy.rate_limits,
            quotas=policy.quotas,
            weights=policy.weights,
            target_kinds=policy.target_kinds,
        )
        uses_roles = settings.handler_role is HandlerRole.TENANT
        logins = HandlerLogins(database) if uses_roles else None
        transactions = HandlerTransactions(database.target, logins)
        roles = policy.roles.get(settings.service, ())
        tokens = Minter(database, settings, roles=roles)
        hand_overs = HandOvers(database, tokens, settings.callback_url, replica.clock)
        deliveries = Deliveries(
            parts.runners, policy, begun_in(database, replica.clock), tokens, hand_overs
        )
        executor = Executor(
            parts.handlers,
            HandlerConnections(transactions),
            deliveries=deliveries,
            tokens=tokens,
            authoriser=parts.authoriser,
            tracing=parts.tracing,
            max_timeout=policy.max_timeout,
        )
        await revisit(database, _bounds(policy))
        providers = _providers(parts)
        outbox = Outbox(replica.event_delivery, WebhookSender(parts.caller, policy.allowed_secrets))
        follower = _follower(replica, parts.source)
        work = ReplicaRun(
            replica,
            executor,
            providers,
            outbox,
            follower,
            default_target=policy.default_target,
            publisher=BusPublisher(replica.event_delivery, parts.bus) if parts.bus else None,
            runners=parts.runners,
        )
        _stop_on_signals(work, settings.drain)
        if span is not None:
            asyncio.get_running_loop().call_later(span, work.stop)
        try:
            async with _watched(replica, executor, tokens, work):
                await (work.run_once() if once else work.run())
        finally:
            await transactions.close()
            for runner in parts.runners.values():
                await runner.close()
            await parts.caller.close()
    return Exit.OUT_OF_MEMORY if work.is_too_large else 0


def _bounds(policy: Policy) -> Bounds:
    return Bounds(policy.minimum_interval, policy.max_schedules_per_tenant, policy.caps)


def _providers(parts: Parts) -> tuple[ScheduleProvider, ...]:
    """Return all providers, manifests first, bounded by the policy of the scheduler."""
    bounds = _bounds(parts.policy)
    others = (static_provider(parts.settings.schedules), *parts.plugged_in)
    return (TenantScheduleProvider(bounds), *(BoundedProvider(other, bounds) for other in others))


def _follower(replica: Replica, source: TenantSource | None) -> Follower | None:
    if source is None:
        return None
    settings = replica.settings
    return Follower(
        replica.database,
        source,
        replica.actor,
        settings.refresh_interval,
        settings.tenant_source_max_age,
        settings.schema_pattern,
        replica.clock,
        replica.random,
    )


@asynccontextmanager
async def _watched(
    replica: Replica, executor: Executor, tokens: Minter, work: ReplicaRun
) -> AsyncIterator[None]:
    """Serve metrics and probes if a port is set."""
    settings = replica.settings
    if settings.metrics_port is None:
        yield
        return
    from tenantcron.scheduler.metrics.prometheus import Metrics, Process  # noqa: PLC0415 -- an optional part
    from tenantcron.scheduler.metrics.server import routes, serve  # noqa: PLC0415 -- as above

    process = Process(replica.counts, executor, tokens.counts, replica.retention)
    metrics = Metrics(replica.database, settings, process, replica.clock)
    shown = routes(metrics.scrape, lambda: work.unhealthy, lambda: work.unready)
    async with serve(shown, settings.metrics_host, settings.metrics_port):
        yield


def _stop_on_signals(work: ReplicaRun, drain: timedelta) -> None:
    """Drain at the first signal; exit at the second one, or if draining takes too long."""

    def at_once(_: int, __: FrameType | None) -> None:
        end_at_once()

    def stop() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, at_once)
        end_after(drain.total_seconds() + LONGEST_STOP)
        work.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
