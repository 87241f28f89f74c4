"""The documented statement with which a service ignores old attempts."""

import re
from pathlib import Path

import psycopg
from psycopg import RawCursor
from support.calls import ID, KEY, an_execution

from tenantcron.targets.headers import FENCE, attempt_headers

PAGE = Path(__file__).parents[2] / "docs" / "targets-http.md"


def test_an_old_attempt_cannot_overwrite_the_result_of_a_newer_one(empty_database_url: str) -> None:
    (statement,) = re.findall(
        r"<!-- fence -->\n+```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    old, new = (int(attempt_headers(an_execution(number), KEY)[FENCE]) for number in (9, 10))
    with psycopg.connect(empty_database_url) as connection, RawCursor(connection) as cursor:
        cursor.execute("CREATE TABLE invoice_run (execution_id uuid, fence bigint, total int)")
        cursor.execute("INSERT INTO invoice_run VALUES ($1, 0, 0)", [ID])

        def updated(fence: int, total: int) -> int:
            return cursor.execute(statement, [fence, ID, total]).rowcount

        assert updated(new, 100) == 1
        assert updated(old, 50) == 0
        assert updated(new, 100) == 0
        assert cursor.execute("SELECT total FROM invoice_run").fetchall() == [(100,)]
