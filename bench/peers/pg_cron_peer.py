"""pg_cron: the server itself runs statements; there are no workers, and the work is SQL."""

from datetime import UTC, datetime

import psycopg
from recording import arguments, url

_SCHEDULE = (
    "SELECT cron.schedule('noop' || i, %(cron)s, 'SELECT 1')"
    " FROM generate_series(1, %(number)s) AS i"
)


def _load(number: int, due: float) -> None:
    cron = datetime.fromtimestamp(due, UTC).strftime("%-M %-H %-d %-m *")
    with psycopg.connect(url()) as connection:
        connection.execute("CREATE EXTENSION pg_cron")
        connection.execute(_SCHEDULE, {"cron": cron, "number": number})


if __name__ == "__main__":
    _, _, number, due = arguments()
    _load(number, due)
