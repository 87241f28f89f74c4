"""Read timetables with their settings, wherever a manifest or a policy has one.

Timings are in three places, each of which may refer to the previous ones by name: the presets of
the policy, `schedules:` of a manifest, and the triggers of its sagas. So there are no cycles.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice

from tenantcron.core.durations import format_duration
from tenantcron.core.lookalikes import to_ascii
from tenantcron.core.suggest import close_match
from tenantcron.core.words import shortened
from tenantcron.cron.analysis import gap_below
from tenantcron.cron.errors import CronError
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import Timetable
from tenantcron.cron.zones import UnknownZoneError, zone, zone_names, zone_of_offset
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.hints import with_foreign_letter
from tenantcron.manifests.language.payload import check_payload
from tenantcron.manifests.language.timetable_rules import TimetableRules
from tenantcron.manifests.language.translate import InvalidTimeError, translate
from tenantcron.manifests.view import View
from tenantcron.schedules.kinds import SettingKind, WrongValueError
from tenantcron.schedules.schedule import Timing
from tenantcron.schedules.settings import (
    DEFAULTS,
    RETRY,
    SETTINGS,
    TIMEOUT,
    ScheduleSettings,
    conflicts,
    fill_in,
    fill_in_retry,
)

# None: the timing is defined but invalid, and has been reported where it is defined.
NamedTimings = Mapping[str, Timing | None]

FORMS = ("cron", "every", "daily", "weekly", "monthly", "once", "preset")

# Suggestions take time: they are searched among so many names, and for so many faults.
_MANY_NAMES = 500
_MANY_FAULTS = 20
_SECOND = timedelta(seconds=1)
_A_ZONE = "write a name such as Europe/London or UTC"


class TimingReader:
    """Reads timings; adds what is wrong with them to `faults`."""

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
        # The timetable is read even without a valid zone, to report its faults as well.
        timetable = base.timetable if base else self._timetable(view, timezone or "UTC")
        if timetable is None or timezone is None:
            return None
        self.faults.extend(_judge_spread(settings, timetable, view))
        timing = Timing(timetable, timezone, settings, base.form if base else _form(view))
        is_new = base is None or timing.cron != base.cron
        if is_new and not any(conflicts(settings)):
            self.faults.extend(self.rules.check_stored(timing, _place(view)))
        return timing

    def expression(self, text: str, at: Pointer) -> Timing | None:
        """Read a cron expression that stands alone: in UTC, with the default settings."""
        timetable = self._parse(text, at)
        if timetable is None:
            return None
        timing = Timing(timetable, "UTC", self._defaults)
        self.faults.extend(self.rules.check_stored(timing, at))
        return timing

    @property
    def _defaults(self) -> ScheduleSettings:
        """The default settings, with a timeout that the platform allows."""
        return DEFAULTS._replace(timeout=min(DEFAULTS.timeout, self._longest))

    def find(self, name: str, named: NamedTimings, at: Pointer) -> Timing | None:
        """Look up a timing by its name."""
        if name not in named:
            meant = close_match(name, islice(named, _MANY_NAMES)) if self._suggests else None
            hint = f"did you mean `{meant}`?" if meant else "define it under `schedules:`"
            self.faults.append(Fault("TC206", f"no schedule is called `{name}`", at, hint))
        return named.get(name)

    @property
    def _suggests(self) -> bool:
        """Whether to search for what was meant: not after many faults."""
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
            return None  # the structure check, or the look-up by name, has reported it
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
        self.faults.extend(self.rules.check(timetable, at))
        return timetable

    def _settings(self, view: View, base: ScheduleSettings) -> ScheduleSettings:
        """Return the settings of a mapping; missing ones are those of the base."""
        self.faults.extend(_judge_timeout(view, self._longest))
        values = self._values(view, SETTINGS)
        if (retry := view.get("retry")) is not None:
            values["retry"] = fill_in_retry(base.retry, self._values(retry, RETRY))
        if (payload := view.get("payload")) is not None:
            self.faults.extend(check_payload(payload))
        settings = fill_in(base, values)
        self.faults.extend(_judge_conflicts(settings, view))
        return settings

    def _values(self, view: View, kinds: Mapping[str, SettingKind[object]]) -> dict[str, object]:
        """Read the keys of a mapping that are settings; the structure check found most faults."""
        values: dict[str, object] = {}
        for key, entry in view.entries():
            if (kind := kinds.get(key)) is None or key == "retry":
                continue
            try:
                values[key] = value = kind.read(entry.value)
            except WrongValueError as error:
                self.faults.append(Fault("TC106", f"`{key}` {error}", entry.pointer))
                continue
            limits = kind.refusal(value) if isinstance(value, timedelta) else None
            if limits is not None:
                self.faults.append(Fault("TC305", f"`{key}` must be {limits}", entry.pointer))
        return values


def _form(view: View) -> str:
    return next(form for form in FORMS if view.get(form) is not None)


def _zone_hint(name: str) -> str | None:
    """Return which zone was meant; an offset is not a zone, because it has no daylight saving."""
    fixed = zone_of_offset(name)
    if fixed is not None:
        return f"write a place such as Europe/Paris, or {fixed} for this offset all year"
    try:
        zone(to_ascii(name) or name)
    except UnknownZoneError as error:
        meant = f"did you mean {error.suggestion}?" if error.suggestion else _A_ZONE
        return with_foreign_letter(name, meant)
    return with_foreign_letter(name, f"write {to_ascii(name)}")


def _place(view: View) -> Pointer:
    """Return where the timetable of a mapping is written, its bounds first."""
    keys = ("ends", "starts", *FORMS)
    return next(((*view.pointer, key) for key in keys if view.has(key)), view.pointer)


def _judge_conflicts(settings: ScheduleSettings, view: View) -> Iterator[Fault]:
    """Yield the conflicts of keys of this mapping; a preset's own are reported there."""
    for conflict in conflicts(settings):
        key = next((key for key in conflict.keys if view.has(key)), None)
        if key is not None:
            yield Fault("TC305", conflict.message, (*view.pointer, key))


def _judge_timeout(view: View, longest: timedelta) -> Iterator[Fault]:
    timeout = view.duration("timeout")
    if timeout is not None and longest < timeout <= TIMEOUT.high:
        message = (
            f"a timeout of {format_duration(timeout)} is longer than the platform allows: "
            f"{format_duration(longest)}"
        )
        yield Fault("TC307", message, (*view.pointer, "timeout"))


def _judge_spread(settings: ScheduleSettings, timetable: Timetable, view: View) -> Iterator[Fault]:
    # A gap has whole seconds, so "not smaller than the gap" is "gap below spread and a second".
    # Beyond its limit a spread is refused already, and one finding is enough.
    is_judged = settings.spread and SETTINGS["spread"].refusal(settings.spread) is None
    gap = gap_below(timetable, settings.spread + _SECOND) if is_judged else None
    if gap is not None:
        key = "spread" if view.get("spread") else "preset"
        message = (
            f"a spread of {format_duration(settings.spread)} is not smaller than the shortest gap "
            f"of {format_duration(gap)}"
        )
        yield Fault("TC306", message, (*view.pointer, key))
