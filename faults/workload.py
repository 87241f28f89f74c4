"""The schedules of all tenants, each with the guarantee that is checked."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from faults.expectation import Cron, Every, Timetable, last_change

LIMIT, LIMIT_PER_TENANT = 600, 40
MAX_ATTEMPTS = 20
# The saga that kills its worker.
POISON = "poison"
# Sagas that only supervised schedulers can run.
REPORTS = ("report0", "report1")
_ALWAYS = {"overlap": "allow", "start_within": "24h", "auto_pause_after": 0}
_MONTH = timedelta(days=31)
_WINDOWS = {_MONTH: "31d", timedelta(hours=1): "1h"}
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "Europe/London")
# With and without a star in the hour field: as the clock shows, and at fixed times.
CLOCK_CRONS = ("30 * * * *", "30 2 * * *", "*/20 * * * *", "15,45 1,2,3 * * *", "30 1 * * *")


class Guarantee(Enum):
    """What must be true of the occurrences of a schedule."""

    # Each has its own row, which succeeded, and an effect.
    EACH = auto()
    # Each has its own row, in any final state.
    ROW = auto()
    # Each has a row or is covered by exactly one.
    COVERED = auto()
    # Each row is of an occurrence, which has no other row; some may have none.
    AT_MOST = auto()


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule of a manifest."""

    tenant: str
    saga: str
    timetable: Timetable
    guarantee: Guarantee = Guarantee.EACH
    catch_up: str = "all"
    window: timedelta = _MONTH
    timeout: str = "10s"
    overlap: str = "allow"
    url: str | None = None
    # A target of another kind than a plain call of `url`.
    target: Mapping[str, object] | None = None
    attempts: int = MAX_ATTEMPTS
    backoff: tuple[str, str] = ("0s", "1s")
    auto_pause_after: int = 0
    # The time from which it counts, if long ago: its cursor is set back to it during the run.
    since: datetime | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Tenant and name, which are unique."""
        return self.tenant, self.saga

    def document(self, note: str) -> dict[str, object]:
        """Return the saga as written in a manifest."""
        timing = {
            **_ALWAYS,
            **self.timetable.document(),
            "catch_up": self.catch_up,
            "catch_up_window": _WINDOWS[self.window],
            "timeout": self.timeout,
            "overlap": self.overlap,
            "auto_pause_after": self.auto_pause_after,
            "retry": {
                "max_attempts": self.attempts,
                "backoff": self.backoff[0],
                "max_backoff": self.backoff[1],
            },
            "payload": {"note": note},
        }
        call = {"http": {"url": self.url}} if self.url else self.target
        target = {"target": call} if call else {}
        return {"name": self.saga, "trigger": {"scheduled": timing}, **target}


@dataclass(frozen=True, slots=True)
class Workload:
    """All schedules of a run."""

    schedules: tuple[Schedule, ...]

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenants in order."""
        return tuple(dict.fromkeys(schedule.tenant for schedule in self.schedules))

    def of(self, tenant: str) -> tuple[Schedule, ...]:
        """Return the schedules of a tenant."""
        return tuple(schedule for schedule in self.schedules if schedule.tenant == tenant)

    def manifest(self, tenant: str, note: str = "first") -> str:
        """Return the manifest of a tenant; the note goes into every payload."""
        sagas = [schedule.document(note) for schedule in self.of(tenant)]
        return json.dumps({"version": "1.0", "tenant": tenant, "sagas": sagas})


def policy(*ports: int) -> str:
    """Return the platform's policy, which allows intervals of a second and the counting service."""
    return (
        '[policy]\nminimum_interval = "1s"\nmax_schedules_per_tenant = 1000\n'
        "quotas = { starts_per_minute = 1000000 }\n"
        'allowed_hosts = ["http://127.0.0.1"]\nallowed_networks = ["127.0.0.0/8"]\n'
        f"allowed_ports = {list(ports)}\n"
    )


def workload(now: datetime, service: str, steady: int, *, poison: bool = False) -> Workload:
    """Return the schedules of a run: `steady` of them every second, and a few of every kind."""
    return Workload(
        (
            *(_poison() if poison else ()),
            *_steady(steady),
            *_restored(),
            *_clock(now),
            *_http(service),
            *_handlers(),
            *_reports(),
            *_operated(),
        )
    )


def _steady(number: int) -> Iterator[Schedule]:
    """The bulk: quick handlers, every second."""
    for place in range(number):
        yield Schedule(f"steady{place // 8:02}", f"work{place % 8}", Every(1))


def _poison() -> Iterator[Schedule]:
    """A handler that kills its worker, beside all others.

    It is rare enough for others to finish in between.
    """
    yield Schedule("poison", POISON, Every(20), Guarantee.ROW)


def _restored() -> Iterator[Schedule]:
    """Schedules whose cursors are set back repeatedly, as by a restored backup."""
    for place in range(8):
        yield Schedule(f"restored{place // 4}", f"work{place % 4}", Every(2))


def _clock(now: datetime) -> Iterator[Schedule]:
    """Schedules that count from before the last clock change of their zone."""
    for zone in ZONES:
        since = last_change(zone, now) - timedelta(hours=26)
        tenant = f"clock_{zone.rpartition('/')[2].lower()}"
        for place, cron in enumerate(CLOCK_CRONS):
            timetable = Cron(cron, zone)
            yield Schedule(tenant, f"work{place}", timetable, Guarantee.COVERED, since=since)
        for place, catch_up in enumerate(("once", "none"), len(CLOCK_CRONS)):
            timetable, hour = Cron(CLOCK_CRONS[0], zone), timedelta(hours=1)
            yield Schedule(
                tenant, f"work{place}", timetable, Guarantee.COVERED, catch_up, hour, since=since
            )


def _http(service: str) -> Iterator[Schedule]:
    """Calls of the counting service, which responds at once, late, with errors, or never."""
    for tenant in ("http0", "http1"):
        for kind in ("quick", "late", "flaky", "mute"):
            timeout = "3s" if kind == "mute" else "10s"
            url = f"{service}/{kind}"
            yield Schedule(tenant, f"call_{kind}", Every(3), timeout=timeout, url=url)


def _handlers() -> Iterator[Schedule]:
    """Handlers that are slow, hang, fail, block a thread, or fail permanently."""
    for tenant in ("handlers0", "handlers1"):
        yield Schedule(tenant, "slow", Every(2))
        yield Schedule(tenant, "long", Every(8), timeout="60s")
        yield Schedule(tenant, "hang", Every(5), timeout="2s")
        yield Schedule(tenant, "fail", Every(2))
        yield Schedule(tenant, "block", Every(3))
        yield Schedule(
            tenant, "doomed", Every(2), Guarantee.COVERED, attempts=1, auto_pause_after=10
        )


def _reports() -> Iterator[Schedule]:
    """Sagas without a handler on most schedulers; an attempt on the wrong one would fail."""
    for saga in REPORTS:
        yield Schedule("reports", saga, Every(1))


def _operated() -> Iterator[Schedule]:
    """Tenants that operators change: suspended, limited, edited, with a dropped schema."""
    for tenant in ("suspended0", "suspended1"):
        for place in range(2):
            yield Schedule(tenant, f"work{place}", Every(1), Guarantee.ROW)
    for place in range(4):
        yield Schedule("limited", f"slow{place}", Every(2))
        yield Schedule("edited", f"work{place}", Every(1))
        yield Schedule("contested", f"work{place}", Every(2))
        yield Schedule("dropped", f"work{place}", Every(1), Guarantee.AT_MOST)
