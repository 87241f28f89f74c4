"""Prepared statements, for steps that touch few rows.

Planning is most of the cost of a hot statement on few rows: 3 of the 4 ms of a claim that starts
one execution. So the transactions of small steps prepare their statements, and use generic plans,
which the server makes once for each connection:

- **Few rows only.** A generic plan does not depend on the parameters, so it cannot adapt to
  thousands of rows. With the pins of the hot steps it finds every row by its key. Large batches
  are planned each time; there planning costs little.
- **Direct connections only.** Behind a pooler in transaction mode the next transaction may run in
  another session, which does not have the statement. A connection is direct if the process id that
  the server sent when it was opened is that of its session; poolers send other numbers.
- **Stale statements.** If a session has lost a statement, or a migration has changed its result,
  the connection counts as lost: the step is repeated on a new one. After a lost statement nothing
  more is prepared by this process, in case a pooler passes on the process id.
"""

from typing import Final

import psycopg
from sqlalchemy.engine import ExceptionContext

from tenantcron.store.connection.deadlines import BoundedConnection

# A step of at most so many rows is small.
FEW: Final = 32
# invalid_sql_statement_name and duplicate_prepared_statement: the session is another one.
_LOST: Final = ("26000", "42P05")
# feature_not_supported, of a statement: "cached plan must not change result type".
_CHANGED: Final = "0A000"


class Preparing:
    """Whether the connections of an engine prepare the statements of small steps."""

    def __init__(self) -> None:
        self._is_allowed = True

    def begins(self, driver: BoundedConnection, *, is_small: bool) -> bool:
        """Return whether a transaction that begins now prepares its statements."""
        # Also for the BEGIN itself, which is several statements.
        driver.prepare_threshold = None
        return is_small and self._is_allowed and driver.is_direct

    def discard_stale(self, context: ExceptionContext) -> None:
        """Treat a connection with a stale statement as lost."""
        error = context.original_exception
        if not isinstance(error, psycopg.Error) or not _prepares(context):
            return
        if error.sqlstate in _LOST:
            self._is_allowed = False
            context.is_disconnect = True
        elif error.sqlstate == _CHANGED:
            context.is_disconnect = True


def prepare_statements(driver: BoundedConnection) -> None:
    """Prepare each statement when it is executed for the first time."""
    driver.prepare_threshold = 0


def _prepares(context: ExceptionContext) -> bool:
    connection = context.connection
    if connection is None or connection.invalidated:
        return False
    driver = connection.connection.driver_connection
    return isinstance(driver, BoundedConnection) and driver.prepare_threshold is not None
