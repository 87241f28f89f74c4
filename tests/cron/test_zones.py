"""Zones come only from the tzdata package, under the names that it lists."""

import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
import tzdata  # type: ignore[import-untyped] # as in cron/zones.py

from tenantcron.core.errors import TenantcronError
from tenantcron.cron.zones import UnknownZoneError, tz_version, zone, zone_names


@pytest.mark.parametrize(
    "name",
    [
        "UTC",
        "Europe/London",
        "US/Eastern",
        "Asia/Calcutta",
        "GB",
        "Etc/GMT+5",
        "America/Indiana/Knox",
    ],
)
def test_places_and_their_older_names_are_zones(name: str) -> None:
    assert name in zone_names()
    assert zone(name).key == name


@pytest.mark.parametrize(
    ("name", "instant", "offset"),
    [
        ("UTC", "2026-07-01T00:00", timedelta(0)),
        ("Europe/London", "2026-07-01T00:00", timedelta(hours=1)),
        ("Asia/Calcutta", "2026-07-01T00:00", timedelta(hours=5, minutes=30)),
        ("US/Eastern", "2026-01-01T00:00", timedelta(hours=-5)),
    ],
)
def test_zones_have_their_offsets(name: str, instant: str, offset: timedelta) -> None:
    moment = datetime.fromisoformat(instant).replace(tzinfo=UTC)
    assert moment.astimezone(zone(name)).utcoffset() == offset


def test_every_name_opens() -> None:
    assert len(zone_names()) > 500
    for name in zone_names():
        assert zone(name).key == name


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("europe/london", "Europe/London"),
        ("EUROPE/LONDON", "Europe/London"),
        ("utc", "UTC"),
        ("Europe/Lodnon", "Europe/London"),
        ("America/New York", "America/New_York"),
        ("London", "Europe/London"),
        ("localtime", None),
        ("posixrules", None),
        ("Factory", None),
        ("right/Europe/London", None),
        ("posix/Europe/London", None),
        ("America", None),
        ("America/", None),
        ("", None),
        (" ", None),
        ("../x", None),
        ("../zoneinfo/UTC", None),
        ("/etc/localtime", None),
        ("Europe/London\x00", "Europe/London"),
        ("\udc80", None),
        ("x" * 10_000, None),
    ],
)
def test_other_names_are_rejected_with_a_suggestion(name: str, suggestion: str | None) -> None:
    with pytest.raises(UnknownZoneError) as caught:
        zone(name)
    assert caught.value.suggestion == suggestion
    assert isinstance(caught.value, TenantcronError)
    hint = f"did you mean {suggestion}?" if suggestion else "use a name such as Europe/London"
    assert str(caught.value).startswith("unknown time zone '")
    assert str(caught.value).endswith(hint)
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 200


def test_the_version_is_that_of_the_package() -> None:
    assert tz_version() == tzdata.IANA_VERSION


def test_zones_are_read_once() -> None:
    assert zone("Europe/London") is zone("Europe/London")


def test_the_search_path_of_zoneinfo_is_unchanged() -> None:
    before = zoneinfo.TZPATH
    zone("Europe/Paris")
    assert before == zoneinfo.TZPATH


def test_the_database_of_the_operating_system_is_never_read() -> None:
    # With an empty search path zoneinfo cannot find the system's files, and zones still open.
    script = (
        "import zoneinfo; zoneinfo.reset_tzpath([]);"
        "from tenantcron.cron.zones import zone;"
        "print(zone('Europe/London').key)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "Europe/London"


def test_importing_the_module_loads_neither_croniter_nor_pydantic() -> None:
    script = (
        "import sys; import tenantcron.cron.parse, tenantcron.cron.analysis;"
        "import tenantcron.cron.occurrences, tenantcron.cron.zones;"
        "print(*sorted({'croniter', 'pydantic', 'calendar'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
