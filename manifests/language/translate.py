"""Translate every form of timetable into the stored form: cron, `@every` or `@at`."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tenantcron.core.durations import format_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.core.words import shortened
from tenantcron.cron.instants import InstantError, read_instant
from tenantcron.cron.placement import fixed_instant
from tenantcron.cron.shifts import shifts
from tenantcron.cron.zones import zone
from tenantcron.manifests.view import View

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class InvalidTimeError(TenantcronError):
    """The text is not a point in time."""


def translate(timing: View, timezone: str) -> str | None:
    """Return the stored form of a timetable, None if it is incomplete."""
    # The time zone is read only for the two forms that need it; most are cron or daily.
    cron, once = timing.text("cron"), timing.text("once")
    interval = timing.duration("every")
    if cron is not None:
        return cron
    if interval is not None:
        return every(interval, zone(timezone))
    if once is not None:
        return f"@at {instant(once, zone(timezone)).replace(tzinfo=None).isoformat()}Z"
    return _daily(timing) or _weekly(timing) or _monthly(timing)


def every(interval: timedelta, place: ZoneInfo) -> str:
    """Write an interval as cron if it is exactly equivalent: a divisor of the hour or the day.

    Cron uses local time, so the interval must also divide every clock change of the time zone:
    occurrences of `0 */2 * * *` in London are an hour apart when summer time begins.
    """
    cron = _cron_of(interval)
    # The shifts come second, because finding them is slower than reading ten timetables.
    if cron is not None and all(shift % interval == timedelta(0) for shift in shifts(place)):
        return cron
    return f"@every {format_duration(interval)}"


def _cron_of(interval: timedelta) -> str | None:
    """Write an interval as cron, regardless of clock changes."""
    minutes, rest = divmod(int(interval.total_seconds()), 60)
    if rest or not minutes:
        return None
    if minutes < 60 and 60 % minutes == 0:
        return "* * * * *" if minutes == 1 else f"*/{minutes} * * * *"
    hours, rest = divmod(minutes, 60)
    if rest or 24 % hours:
        return None
    return {1: "0 * * * *", 24: "0 0 * * *"}.get(hours, f"0 */{hours} * * *")


def instant(text: str, place: ZoneInfo) -> datetime:
    """Read a point in time; without an offset it is local, with the rule for fixed times."""
    if "." in text:
        raise InvalidTimeError(f"{shortened(text)!r} is not in whole seconds")
    try:
        time = read_instant(text)
        return fixed_instant(place, time) if time.tzinfo is None else time
    except InstantError as error:
        raise InvalidTimeError(f"{shortened(text)!r} {error}") from None
    except (ValueError, OverflowError):
        raise InvalidTimeError(f"{shortened(text)!r} is not on the calendar of {place}") from None


def _daily(timing: View) -> str | None:
    daily = timing.get("daily")
    return None if daily is None else _at(daily, "* * *")


def _weekly(timing: View) -> str | None:
    weekly = timing.get("weekly")
    on = weekly and weekly.get("on")
    if weekly is None or on is None:
        return None
    days = sorted(WEEKDAYS.index(day.value) for day in on.items() if isinstance(day.value, str))
    return _at(weekly, f"* * {','.join(map(str, days))}") if days else None


def _monthly(timing: View) -> str | None:
    monthly = timing.get("monthly")
    if monthly is None:
        return None
    day = "L" if monthly.text("day") == "last" else monthly.number("day")
    return _at(monthly, f"{day} * *") if day else None


def _at(form: View, days: str) -> str | None:
    time = form.text("at")
    if time is None:
        return None
    hour, minute = time.split(":")
    return f"{int(minute)} {int(hour)} {days}"
