"""Reads a timetable with its settings, wherever one may be written.

Timings have three homes, each of which may refer to the ones before it by name: the policy's
presets, a manifest's `schedules:`, and the triggers of its sagas. So names never run in circles.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from itertools import islice
from typing import TypeVar

from tenantcron.core.durations import format_duration, parse_duration
from tenantcron.core.names import Owner
from tenantcron.core.suggest import close_match
from tenantcron.core.words import shortened
from tenantcron.cron.analysis import gap_below
from tenantcron.cron.errors import CronError
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import Timetable
from tenantcron.cron.zones import UnknownZoneError, zone, zone_names
from tenantcron.manifests.desired import CatchUp, Overlap, Priority, Retry, Settings, Timing
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.payload import Payload, judge_payload
from tenantcron.manifests.language.schemas import defaults
from tenantcron.manifests.language.timetable_rules import TimetableRules
from tenantcron.manifests.language.translate import InvalidTimeError, translate
from tenantcron.manifests.view import View

# None stands for a timing that is defined but broken: its own place has been reported.
NamedTimings = Mapping[str, Timing | None]

FORMS = ("cron", "every", "daily", "weekly", "monthly", "once", "preset")
T = TypeVar("T")

# Looking for what was meant takes time: among so many names, and up to so many faults.
_MANY_NAMES = 500
_MANY_FAULTS = 20
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
# The shortest and the longest timeout that the scheduler can honour.
TIMEOUTS = (_SECOND, _DAY)
_LIMITS = {
    "spread": (timedelta(0), _DAY),
    "catch_up_window": (timedelta(0), 31 * _DAY),
    "start_within": (timedelta(0), _DAY),
    "timeout": TIMEOUTS,
    "backoff": (timedelta(0), _DAY),
    "max_backoff": (timedelta(0), _DAY),
}


class TimingReader:
    """Reads timings; what is wrong with them goes to `faults`."""

    __slots__ = ("_longest", "faults", "rules")

    def __init__(self, rules: TimetableRules, longest: timedelta, faults: list[Fault]) -> None:
        self.rules = rules
        self.faults = faults
        self._longest = longest

    def read(self, view: View, named: NamedTimings) -> Timing | None:
        """Read a mapping of timetable and settings, or a cron expression alone."""
        if isinstance(view.value, str):
            return self.expression(view.value, view.pointer)
        base = self._base(view, named)
        timezone = self._timezone(view, base)
        settings = self._settings(view, base.settings if base else self._defaults)
        # Even without a zone the timetable is read: its own faults are worth telling now.
        timetable = base.timetable if base else self._timetable(view, timezone or "UTC")
        if timetable is None or timezone is None:
            return None
        self.faults.extend(_judge_spread(settings, timetable, view))
        return Timing(timetable, timezone, settings)

    def expression(self, text: str, at: Pointer) -> Timing | None:
        """Read a cron expression that stands alone: in UTC, with the default settings."""
        timetable = self._parse(text, at)
        return None if timetable is None else Timing(timetable, "UTC", self._defaults)

    @property
    def _defaults(self) -> Settings:
        """The default settings; where the platform allows less than the usual timeout, that."""
        usual = default_settings()
        return usual._replace(timeout=min(usual.timeout, self._longest))

    def find(self, name: str, named: NamedTimings, at: Pointer) -> Timing | None:
        """Look a timing up by its name."""
        if name not in named:
            meant = close_match(name, islice(named, _MANY_NAMES)) if self._suggests else None
            hint = f"did you mean `{meant}`?" if meant else "define it under `schedules:`"
            self.faults.append(Fault("TC206", f"no schedule is called `{name}`", at, hint))
        return named.get(name)

    @property
    def _suggests(self) -> bool:
        """Whether it is still worth telling what was meant."""
        return len(self.faults) < _MANY_FAULTS

    def _base(self, view: View, named: NamedTimings) -> Timing | None:
        preset = view.text("preset")
        return None if preset is None else self.find(preset, named, (*view.pointer, "preset"))

    def _timezone(self, view: View, base: Timing | None) -> str | None:
        """Return the name of the zone: its own, else the named timing's, else UTC."""
        name = view.text("timezone")
        if name is None:
            return base.timezone if base else "UTC"
        if name in zone_names():
            return name
        message = f"`{shortened(name)}` is not a time zone"
        hint = _zone_hint(name) if self._suggests else None
        self.faults.append(Fault("TC205", message, (*view.pointer, "timezone"), hint))
        return None

    def _timetable(self, view: View, timezone: str) -> Timetable | None:
        forms = [form for form in FORMS if view.has(form)]
        if len(forms) != 1 or forms == ["preset"]:
            return None  # the structure check, or the look-up by name, has told
        at = (*view.pointer, forms[0])
        try:
            text = translate(view, timezone)
        except InvalidTimeError as error:
            self.faults.append(Fault("TC207", str(error), at))
            return None
        return None if text is None else self._parse(text, at)

    def _parse(self, text: str, at: Pointer) -> Timetable | None:
        try:
            timetable = parse(text)
        except CronError as error:
            self.faults.append(Fault("TC201", error.message, at, error.hint))
            return None
        self.faults.extend(self.rules.judge(timetable, at))
        return timetable

    def _settings(self, view: View, base: Settings) -> Settings:
        """Fill in what the mapping does not say."""
        self.faults.extend(_judge_durations(view))
        self.faults.extend(_judge_timeout(view, self._longest))
        return Settings(
            description=_or(view.text("description"), base.description),
            enabled=_or(view.flag("enabled"), base.enabled),
            spread=_or(view.duration("spread"), base.spread),
            overlap=Overlap(_or(view.text("overlap"), base.overlap)),
            catch_up=CatchUp(_or(view.text("catch_up"), base.catch_up)),
            catch_up_window=_or(view.duration("catch_up_window"), base.catch_up_window),
            start_within=_or(view.duration("start_within"), base.start_within),
            timeout=_or(view.duration("timeout"), base.timeout),
            retry=self._retry(view.get("retry"), base.retry),
            auto_pause_after=_or(view.number("auto_pause_after"), base.auto_pause_after),
            priority=Priority(_or(view.text("priority"), base.priority)),
            payload=_or(self._payload(view), base.payload),
            owner=_or(_owner(view), base.owner),
        )

    def _retry(self, view: View | None, base: Retry) -> Retry:
        if view is None:
            return base
        self.faults.extend(_judge_durations(view))
        backoff = _or(view.duration("backoff"), base.backoff)
        retry = Retry(
            max_attempts=_or(view.number("max_attempts"), base.max_attempts),
            backoff=backoff,
            max_backoff=_or(view.duration("max_backoff"), max(base.max_backoff, backoff)),
        )
        if retry.backoff > retry.max_backoff:
            message = "the first wait (`backoff`) is longer than the longest (`max_backoff`)"
            self.faults.append(Fault("TC305", message, view.pointer))
        return retry

    def _payload(self, view: View) -> Payload | None:
        payload = view.get("payload")
        if payload is None or not isinstance(payload.value, dict):
            return None
        self.faults.extend(judge_payload(payload))
        return payload.value


@cache
def default_settings() -> Settings:
    """Return the settings that hold where a manifest is silent, as the schema documents them."""
    timing, retry = defaults("manifest", "Timing"), defaults("manifest", "Retry")
    return Settings(
        description="",
        enabled=bool(timing["enabled"]),
        spread=parse_duration(str(timing["spread"])),
        overlap=Overlap(str(timing["overlap"])),
        catch_up=CatchUp(str(timing["catch_up"])),
        catch_up_window=parse_duration(str(timing["catch_up_window"])),
        start_within=parse_duration(str(timing["start_within"])),
        timeout=parse_duration(str(timing["timeout"])),
        retry=Retry(
            max_attempts=int(retry["max_attempts"]),
            backoff=parse_duration(str(retry["backoff"])),
            max_backoff=parse_duration(str(retry["max_backoff"])),
        ),
        auto_pause_after=int(timing["auto_pause_after"]),
        priority=Priority(str(timing["priority"])),
        payload={},
    )


def _owner(view: View) -> Owner | None:
    owner = view.text("owner")
    return None if owner is None else Owner(owner)


def _zone_hint(name: str) -> str | None:
    try:
        zone(name)
    except UnknownZoneError as error:
        return f"did you mean {error.suggestion}?" if error.suggestion else None
    return None


def _judge_durations(view: View) -> Iterator[Fault]:
    written = view.value if isinstance(view.value, dict) else {}
    for key, (low, high) in _LIMITS.items():
        duration = view.duration(key) if key in written else None
        if duration is not None and not low <= duration <= high:
            limits = f"from {format_duration(low)} to {format_duration(high)}"
            yield Fault("TC305", f"`{key}` must be {limits}", (*view.pointer, key))


def _judge_timeout(view: View, longest: timedelta) -> Iterator[Fault]:
    timeout = view.duration("timeout")
    if timeout is not None and longest < timeout <= TIMEOUTS[1]:
        message = (
            f"a timeout of {format_duration(timeout)} is longer than the platform allows: "
            f"{format_duration(longest)}"
        )
        yield Fault("TC307", message, (*view.pointer, "timeout"))


def _judge_spread(settings: Settings, timetable: Timetable, view: View) -> Iterator[Fault]:
    # A gap has whole seconds, so "not smaller than the gap" is "gap below spread and a second".
    # Beyond its limit a spread is refused already, and one finding is enough.
    judged = timedelta(0) < settings.spread <= _LIMITS["spread"][1]
    gap = gap_below(timetable, settings.spread + _SECOND) if judged else None
    if gap is not None:
        key = "spread" if view.get("spread") else "preset"
        message = (
            f"a spread of {format_duration(settings.spread)} is not smaller than the shortest gap "
            f"of {format_duration(gap)}"
        )
        yield Fault("TC306", message, (*view.pointer, key))


def _or(value: T | None, fallback: T) -> T:
    return fallback if value is None else value
