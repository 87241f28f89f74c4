"""A schedule in typed form: its timetable with settings, what it runs and where."""

from typing import NamedTuple

from tenantcron.core.names import SagaName, ScheduleName
from tenantcron.core.targets import Target
from tenantcron.cron.timetable import Timetable
from tenantcron.schedules.settings import ScheduleSettings, write_columns


class Timing(NamedTuple):
    """A timetable in its time zone, with its settings."""

    timetable: Timetable
    timezone: str
    settings: ScheduleSettings
    # The key of the timetable in the manifest, such as `daily`. It is shown, but not stored.
    form: str = "cron"

    @property
    def cron(self) -> str:
        """The timetable as it is stored, whatever form the manifest used."""
        return write_columns(self.timetable.expression, self.settings).cron_expr


class DesiredSchedule(NamedTuple):
    """One schedule of a manifest or of the settings; a Python handler runs one without target."""

    name: ScheduleName
    saga: SagaName
    timing: Timing
    target: Target | None = None
