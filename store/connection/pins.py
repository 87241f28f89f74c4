"""The settings that transactions pin, so that those of server, database and role do not matter.

A role can have any default: `ALTER ROLE app SET datestyle = 'SQL, DMY'`. So a transaction sets
everything that its statements depend on, in the round trip that begins it. SET LOCAL ends with the
transaction, so a pooler in transaction mode works. Startup options would be shorter, but PgBouncer
rejects them.

The timeouts come first: those of the role apply while the server processes the rest.

These are deliberately left to the operator: memory and cost settings, which describe the machine;
`synchronous_commit`, which is a choice about durability; and `role`, which decides who owns the
tables. `client_encoding` is a parameter of the connection, see `database_urls`.
"""

from functools import cache
from typing import Final

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# A standby refuses the other one.
_BEGIN_READ_ONLY: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
# Steps set shorter timeouts where needed, see `locks` and `Database.patient`.
_TIMEOUTS: Final = {"statement_timeout": "0", "lock_timeout": "0"}
# It includes statements, so the value of a role would terminate a long migration.
_TRANSACTION_TIMEOUT: Final = {"transaction_timeout": "0"}
_HAS_TRANSACTION_TIMEOUT: Final = 170_000
# A client that disappears during a transaction holds locks that block others. Every replica waits
# for the locks of the hot steps, so those are released much sooner.
_IDLE: Final = {"idle_in_transaction_session_timeout": "'10min'"}
_IDLE_BY_KEY: Final = {"idle_in_transaction_session_timeout": "'10s'"}
# With another path, a malicious operator or function in `public` or in a tenant's schema could be a
# better match than the built-in one, and would run with our privileges.
_NAMES: Final = {"search_path": "pg_catalog"}
# psycopg only parses ISO dates and Postgres intervals. In a zone with daylight saving time, date
# arithmetic uses local time, so it is done in UTC.
_TEXT_FORMATS: Final = {"datestyle": "'ISO, MDY'", "intervalstyle": "'postgres'"}
_VALUES: Final = _TEXT_FORMATS | {
    "timezone": "'UTC'",
    "extra_float_digits": "1",
    # Otherwise a NULL in an array becomes the text NULL.
    "array_nulls": "on",
    "standard_conforming_strings": "on",
}
# JIT compilation takes longer than any of our statements: 2 s for a claim of 30 ms.
_PLANS: Final = {"jit": "off", "plan_cache_mode": "auto"}
# For prepared statements: a plan for their parameters would be made each time.
_GENERIC_PLANS: Final = {"plan_cache_mode": "force_generic_plan"}
# The plan nodes with which our statements were written and measured.
_PLAN_NODES: Final = dict.fromkeys(
    (
        "enable_indexscan",
        "enable_indexonlyscan",
        "enable_tidscan",
        "enable_nestloop",
        "enable_hashjoin",
        "enable_sort",
        "enable_partition_pruning",
    ),
    "on",
)
_SCANS: Final = {"enable_seqscan": "on", "enable_bitmapscan": "on"}
# With sequential scans, claim, finish and heartbeat read all of `execution_live` once it is
# analysed and has a thousand rows, including all rows that ended since the last vacuum. Otherwise
# the planner chooses bitmap scans, which visit dead index entries every time; a plain index scan
# marks them and skips them from then on. `jit` is off, so the cost that disabling sequential scans
# adds has no other effect.
_SCANS_BY_KEY: Final = {"enable_seqscan": "off", "enable_bitmapscan": "off"}


@cache
def begin_script(
    server_version: int,
    *,
    by_key: bool = False,
    generic_plans: bool = False,
    read_only: bool = False,
) -> str:
    """Return the statements that begin a transaction, without parameters or `%`.

    `server_version` is the number of libpq, such as 150020. `by_key` is for the hot steps, which
    look up a few hundred rows by key; `generic_plans` is for their prepared statements.
    """
    pins = dict(_TIMEOUTS)
    if server_version >= _HAS_TRANSACTION_TIMEOUT:
        pins |= _TRANSACTION_TIMEOUT
    pins |= _IDLE_BY_KEY if by_key else _IDLE
    pins |= _NAMES | _VALUES | _PLANS | _PLAN_NODES
    pins |= _SCANS_BY_KEY if by_key else _SCANS
    if generic_plans:
        pins |= _GENERIC_PLANS
    return _script(pins, _BEGIN_READ_ONLY if read_only else _BEGIN)


def begin_script_with_few() -> str:
    """Return the statements that begin a transaction that depends only on the search path.

    An idle replica sends mostly such transactions, and all pins would be most of their cost.
    """
    return _script(_NAMES)


def begin_script_for_handlers() -> str:
    """Return the statements that begin a handler's transaction.

    Its statements belong to the platform, which may have configured time zone, timeouts and planner
    for them. Only the formats that the driver must parse are pinned.
    """
    return _script(_TEXT_FORMATS)


def _script(pins: dict[str, str], begin: str = _BEGIN) -> str:
    return "; ".join([begin, *(f"SET LOCAL {name} TO {value}" for name, value in pins.items())])
