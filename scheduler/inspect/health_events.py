"""Findings on the delivery of events: webhooks and event buses."""

from collections.abc import Iterator
from datetime import timedelta

from tenantcron.core.durations import format_duration
from tenantcron.core.words import number_of
from tenantcron.scheduler.inspect.cluster_status import LATELY, SHOWN, ClusterStatus
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.store.rows.webhooks import GONE

BEHIND = timedelta(minutes=15)


def event_findings(status: ClusterStatus) -> Iterator[Finding]:
    """Yield the findings."""
    for check in (_webhook_dropped, _bus_dropped, _webhook_behind, _bus_behind, _webhook_gone):
        yield from check(status)


def _webhook_behind(status: ClusterStatus) -> Iterator[Finding]:
    enabled = {webhook.name for webhook in status.webhooks if webhook.disabled_at is None}
    behind = [
        backlog
        for backlog in status.backlogs
        if backlog.webhook in enabled and status.now - backlog.oldest > BEHIND
    ]
    if behind:
        worst = min(behind, key=lambda backlog: backlog.oldest)
        yield Finding(
            "webhook-behind",
            FindingSeverity.WARNING,
            f"{number_of(len(behind), 'webhook')} with undelivered events, the oldest for "
            f"{format_duration(status.now - worst.oldest)}"
            + (f": {worst.error}" if worst.error else ""),
            "see `tenantcron webhook list`, and check that the receiver answers `tenantcron "
            "webhook test` with 2xx; events are kept for outbox_retention",
            tuple(backlog.webhook for backlog in behind[:SHOWN]),
            len(behind),
        )


def _webhook_dropped(status: ClusterStatus) -> Iterator[Finding]:
    losers = [
        webhook
        for webhook in status.webhooks
        if webhook.dropped_at is not None and status.now - webhook.dropped_at < LATELY
    ]
    if losers:
        yield Finding(
            "webhook-events-dropped",
            FindingSeverity.ERROR,
            f"events of {number_of(len(losers), 'webhook')} were dropped undelivered after "
            "outbox_retention",
            "fix the receiver, and list what it missed with `tenantcron execution list`",
            tuple(webhook.name for webhook in losers[:SHOWN]),
            len(losers),
        )


def _webhook_gone(status: ClusterStatus) -> Iterator[Finding]:
    gone = [webhook for webhook in status.webhooks if webhook.disabled_reason == GONE]
    if gone:
        yield Finding(
            "webhook-gone",
            FindingSeverity.WARNING,
            f"{number_of(len(gone), 'webhook')} disabled after answering 410 Gone",
            "run `tenantcron webhook remove`, or `tenantcron webhook enable` once it is back",
            tuple(webhook.name for webhook in gone[:SHOWN]),
            len(gone),
        )


def _bus_behind(status: ClusterStatus) -> Iterator[Finding]:
    for bus in status.buses:
        if bus.oldest is None or status.now - bus.oldest <= BEHIND:
            continue
        yield Finding(
            "event-bus-behind",
            FindingSeverity.WARNING,
            f"the event bus {bus.name} has unpublished events, the oldest for "
            f"{format_duration(status.now - bus.oldest)}" + (f": {bus.error}" if bus.error else ""),
            "check the bus, and that a scheduler with the setting event_bus runs; events are kept "
            "for outbox_retention",
            (bus.name,),
            1,
        )


def _bus_dropped(status: ClusterStatus) -> Iterator[Finding]:
    losers = [
        bus.name
        for bus in status.buses
        if bus.dropped_at is not None and status.now - bus.dropped_at < LATELY
    ]
    if losers:
        yield Finding(
            "event-bus-events-dropped",
            FindingSeverity.ERROR,
            f"events for {', '.join(losers[:SHOWN])} were dropped: they were older than "
            "outbox_retention, or the bus refused them",
            "fix the bus (the log has event_bus_event_refused), and list what its readers missed "
            "with `tenantcron execution list`",
            tuple(losers[:SHOWN]),
            len(losers),
        )
