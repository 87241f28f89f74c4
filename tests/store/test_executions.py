"""The id of an occurrence's execution."""

from datetime import datetime, timedelta, timezone
from uuid import UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st

from tenantcron.store.rows.executions import execution_id

NAMESPACE = UUID("6f1c3f2a-6c0e-5b63-9d0e-3d1f0c3a7b54")


@given(
    schedule_id=st.uuids(),
    moment=st.datetimes(
        min_value=datetime(1990, 1, 1),  # noqa: DTZ001 -- the strategy adds the zone
        max_value=datetime(2090, 1, 1),  # noqa: DTZ001 -- as above
        timezones=st.builds(timezone, st.builds(timedelta, minutes=st.integers(-720, 720))),
    ),
)
def test_the_id_is_the_uuid5_of_schedule_and_time_whatever_the_zone(
    schedule_id: UUID, moment: datetime
) -> None:
    utc = moment.astimezone(timezone.utc)  # noqa: UP017 -- not the object datetime.UTC
    expected = uuid5(NAMESPACE, f"{schedule_id}|{utc.isoformat()}")

    assert execution_id(schedule_id, moment) == expected
    assert execution_id(schedule_id, utc) == expected
