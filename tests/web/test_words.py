"""Timetables in words."""

from datetime import UTC, datetime

import pytest

from tenantcron.cron.zones import zone
from tenantcron.web.words import local_moment, moment, timetable_in_words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 2 * * *", "at 02:00, every day"),
        ("30 6 * * 1", "at 06:30, on Monday"),
        ("0 9,17 * * mon-fri", "at 09:00 and 17:00, on Monday to Friday"),
        ("*/15 * * * *", "every 15 minutes"),
        ("* * * * *", "every minute"),
        ("5,35 * * * *", "every hour, at 05 and 35 minutes past"),
        ("0 * * * *", "every hour, on the hour"),
        ("@hourly", "every hour, on the hour"),
        ("@weekly", "at 00:00, on Sunday"),
        ("0 */6 * * *", "at 00:00, 06:00, 12:00 and 18:00, every day"),
        ("0 */2 * * *", "every 2 hours from 00:00"),
        ("*/30 8-17 * * *", "every 30 minutes from 08:00 to 17:30"),
        ("0 2 1 * *", "at 02:00, on the 1st"),
        ("0 2 1 jul *", "at 02:00, on the 1st, in July"),
        ("0 2 1 */3 *", "at 02:00, on the 1st, in January, April, July and October"),
        ("0 2 */2 * *", "at 02:00, on every 2nd day"),
        ("0 2 L * *", "at 02:00, on the last day of the month"),
        ("0 2 L-3 * *", "at 02:00, on the 3rd day before the last of the month"),
        ("0 2 LW * *", "at 02:00, on the last working day"),
        ("0 2 15W * *", "at 02:00, on the working day nearest to the 15th"),
        ("0 2 * * 5#2", "at 02:00, on the 2nd Friday"),
        ("0 2 * * 5L", "at 02:00, on the last Friday"),
        ("0 2 * * friL", "at 02:00, on the last Friday"),
        ("0 2 * * */2", "at 02:00, on Sunday, Tuesday, Thursday and Saturday"),
        ("0 2 13 * 5", "at 02:00, on the 13th or on Friday"),
        # A field that begins with a star restricts nothing by itself: both must match.
        ("0 2 1-7 * */7", "at 02:00, on the 1st to the 7th if that is Sunday"),
        ("0 2 */2 * mon", "at 02:00, on every 2nd day if that is Monday"),
        ("0 2 1 1,7 *", "at 02:00, on the 1st, in January and July"),
        ("0 2 22 * 7", "at 02:00, on the 22nd or on Sunday"),
        ("@every 45m", "every 45 minutes"),
        ("@every 90m", "every 1 hour and 30 minutes"),
        ("@every 1h", "every hour"),
        ("@every 5s", "every 5 seconds"),
        ("@at 2026-12-01T09:00:00Z", "once, on Tue 2026-12-01 09:00:00 UTC"),
    ],
)
def test_a_timetable_is_described_in_words(expression: str, words: str) -> None:
    assert timetable_in_words(expression) == words


def test_all_times_have_seconds() -> None:
    time = datetime(2026, 7, 1, 8, tzinfo=UTC)

    assert moment(time) == "Wed 2026-07-01 08:00:00 UTC"
    assert moment(time.replace(second=7)) == "Wed 2026-07-01 08:00:07 UTC"
    assert local_moment(time.astimezone(zone("Europe/London"))) == "Wed 2026-07-01 09:00:00 BST"
