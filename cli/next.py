"""`tenantcron next`: shows when a timetable or the schedules of manifests fire."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from tenantcron.cli.moments import Direction, in_words, moment
from tenantcron.cli.terminal import Palette
from tenantcron.core.durations import format_duration
from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.words import visible
from tenantcron.cron.analysis import never_fires, shortest_gap
from tenantcron.cron.errors import CronError
from tenantcron.cron.occurrences import upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import Timetable
from tenantcron.cron.zones import UnknownZoneError, zone
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.files import TenantsSeen, find_files
from tenantcron.manifests.many import ManifestChecker
from tenantcron.schedules.schedule import DesiredSchedule
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.schedules.upcoming import occurrences_after

_EXAMPLES = """\
examples:
  tenantcron next '*/15 8-18 * * mon-fri'
  tenantcron next '30 2 * * *' --timezone Europe/London --after 2027-03-27T12:00 --count 3
  tenantcron next --manifest manifests/          every schedule of every tenant
"""
_FOUND = 1


@dataclass(frozen=True, slots=True)
class _Window:
    """The start of the preview and the number of occurrences to show."""

    after: datetime
    count: int

    def fires(self, timetable: Timetable, place: ZoneInfo) -> list[datetime]:
        """Return the occurrences, in local time."""
        found = islice(upcoming(timetable, place, self.after), self.count)
        return [occurrence.astimezone(place) for occurrence in found]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Show when a cron expression (or @every, @at) or a manifest fires."
    parser.epilog = _EXAMPLES
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "expression", nargs="?", metavar="EXPRESSION", help="cron expression; quote it in the shell"
    )
    what.add_argument(
        "--manifest", nargs="+", type=Path, metavar="PATH", help="show all schedules of manifests"
    )
    parser.add_argument("--timezone", default="UTC", metavar="ZONE", help="use this zone (UTC)")
    parser.add_argument(
        "--after", metavar="TIME", help="start after TIME, such as 18:00 or 2h (now)"
    )
    parser.add_argument("--count", type=int, default=5, metavar="N", help="show N occurrences (5)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="use this tenantcron.toml")
    parser.add_argument(
        "--tenant", metavar="ID", help="set the tenant of a manifest that does not name one"
    )
    parser.add_argument(
        "--format",
        choices=["text", "json", "yaml"],
        default="text",
        help="set the output format (text)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show the occurrences; return 1 for an expression or a manifest with errors."""
    place = _zone(arguments.timezone)
    if not 1 <= arguments.count <= 10_000:
        raise UsageError("--count takes a number from 1 to 10000")
    after = datetime.now(UTC)
    if arguments.after is not None:
        after = moment(arguments.after, place, Direction.FUTURE)(after)
    window = _Window(after, arguments.count)
    if arguments.manifest:
        return _show_manifests(arguments, window)
    return _show_expression(arguments.expression, place, window, arguments.format)


def _zone(name: str) -> ZoneInfo:
    try:
        return zone(name)
    except UnknownZoneError as error:
        raise UsageError(str(error)) from error


def _show_expression(expression: str, place: ZoneInfo, window: _Window, output: str) -> int:
    try:
        timetable = parse(expression)
    except CronError as error:
        return _refuse(expression, "TC201", error, output)
    if never_fires(timetable):
        never = CronError("it never fires: no such day exists", "correct the day or the month")
        return _refuse(expression, "TC202", never, output)
    fires = window.fires(timetable, place)
    gap = shortest_gap(timetable)
    if output != "text":
        answer = {
            "expression": expression,
            "timezone": place.key,
            "shortest_gap_seconds": None if gap is None else int(gap.total_seconds()),
            "never_fires": False,
            "fires": [fire.isoformat() for fire in fires],
        }
        _print_document(answer, output)
        return 0
    paint = Palette(sys.stdout)
    # In local time: at a clock change the real interval can be shorter or longer by the shift.
    shortest = f", minimum interval {format_duration(gap)} (local time)" if gap else ""
    print(f"{paint('strong', visible(timetable.expression))} in {place.key}{shortest}")
    for line in _lines(fires, window.after):
        print(line)
    return 0


def _refuse(expression: str, code: str, error: CronError, output: str) -> int:
    if output != "text":
        details = {"code": code, "message": error.message, "hint": error.hint}
        never = {"never_fires": True} if code == "TC202" else {}
        _print_document({"expression": expression, **never, "error": details}, output)
    else:
        hint = f"\n  help: {error.hint}" if error.hint else ""
        print(f"error[{code}] {visible(error.message)}{hint}", file=sys.stderr)
    return _FOUND


def _print_document(answer: Mapping[str, object], output: str) -> None:
    if output == "json":
        print(json.dumps(answer, indent=2))
        return
    from tenantcron.cli.formats.yaml_text import as_yaml  # noqa: PLC0415 -- few need ruamel.yaml

    print(as_yaml(answer), end="")


def _lines(fires: Sequence[datetime], after: datetime) -> Iterator[str]:
    if not fires:
        yield "  no later occurrence"
    clock = "%Y-%m-%d %H:%M:%S" if any(fire.second for fire in fires) else "%Y-%m-%d %H:%M"
    for fire in fires:
        utc = fire.astimezone(UTC)
        elsewhere = "" if fire.utcoffset() == utc.utcoffset() else f"  ({utc:{clock}} UTC)"
        yield f"  {fire:%a {clock} %Z}{elsewhere}  {in_words(fire - after)}"


def _show_manifests(arguments: argparse.Namespace, window: _Window) -> int:
    try:
        tenants = list(_desired(arguments))
    except _BrokenManifestError as error:
        if arguments.format != "text":
            refused = {"error": {"code": "TC605", "message": str(error)}}
            _print_document(refused, arguments.format)
        else:
            print(f"error: {error}", file=sys.stderr)
        return _FOUND
    if arguments.format != "text":
        found = {"tenants": [_as_json(desired, window) for desired in tenants]}
        _print_document(found, arguments.format)
        return 0
    paint = Palette(sys.stdout)
    for desired in tenants:
        print(paint("strong", desired.tenant))
        for schedule in desired.schedules:
            timing = schedule.timing
            limits = zoned_timetable(timing.cron, timing.timezone).limits(window.after)
            when = ", ".join(filter(None, (f"{timing.cron} in {timing.timezone}", limits)))
            print(f"  {schedule.name}  {paint('dim', when)}")
            if not timing.settings.enabled:
                print("    disabled")
                continue
            for line in _lines(_fires(schedule, window), window.after):
                print(f"  {line}")
    return 0


def _desired(arguments: argparse.Namespace) -> Iterator[Desired]:
    """Yield the desired schedules; raise an error for a manifest that is not valid."""
    files = find_files(arguments.manifest)
    now, tenants = datetime.now(UTC), TenantsSeen()
    checker = ManifestChecker(arguments.policy, arguments.tenant, now, keeps_desired=True)
    for file in checker.check_all(files):
        if file.checked.desired is None or tenants.add(file) is not None:
            paths = " ".join(map(str, arguments.manifest))
            raise _BrokenManifestError(f"{file.path} has errors: `tenantcron validate {paths}`")
        yield file.checked.desired


class _BrokenManifestError(TenantcronError):
    """A manifest has errors, so its occurrences cannot be computed."""


def _fires(schedule: DesiredSchedule, window: _Window) -> tuple[datetime, ...]:
    timing = schedule.timing
    if not timing.settings.enabled:
        return ()
    return occurrences_after(timing.cron, timing.timezone, window.after, window.count)


def _as_json(desired: Desired, window: _Window) -> dict[str, object]:
    return {
        "tenant": desired.tenant,
        "schedules": [
            {
                "name": schedule.name,
                "saga": schedule.saga,
                "cron": schedule.timing.cron,
                "timezone": schedule.timing.timezone,
                "enabled": schedule.timing.settings.enabled,
                "next_executions": [fire.isoformat() for fire in _fires(schedule, window)],
            }
            for schedule in desired.schedules
        ],
    }
