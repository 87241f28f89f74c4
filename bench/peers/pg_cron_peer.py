"""pg_cron: the server itself runs statements; there is no worker, and no work but SQL."""

from datetime import UTC, datetime

import psycopg
from noting import asked, url

_SCHEDULE = (
    "SELECT cron.schedule('noop' || i, %(cron)s, 'SELECT 1')"
    " FROM generate_series(1, %(number)s) AS i"
)


def _hold(number: int, due: float) -> None:
    cron = datetime.fromtimestamp(due, UTC).strftime("%-M %-H %-d %-m *")
    with psycopg.connect(url()) as connection:
        connection.execute("CREATE EXTENSION pg_cron")
        connection.execute(_SCHEDULE, {"cron": cron, "number": number})


if __name__ == "__main__":
    _, _, number, due = asked()
    _hold(number, due)
