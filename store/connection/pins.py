"""The settings that transactions pin, so that those of server, database and role do not matter.

A role can have any default: `ALTER ROLE app SET datestyle = 'SQL, DMY'`. A transaction of ours
therefore names every setting that it depends on, in the round trip that begins it. SET LOCAL ends
with the transaction, so a pooling proxy may stand in between. Startup options would be shorter,
but PgBouncer refuses them.

The timeouts come first: the role's own are running while the server reads the rest.

Left to the operator on purpose: memory and cost settings, which describe the machine;
`synchronous_commit`, which is a choice about durability; and `role`, which decides who owns the
tables. `client_encoding` is a parameter of the connection, see `targets`.
"""

from functools import cache
from typing import Final

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# Steps set a shorter one where they want it, see `locks` and `Database.patient`.
_TIMEOUTS: Final = {"statement_timeout": "0", "lock_timeout": "0"}
# It covers statements, too, so a role's value would end a long migration.
_TRANSACTION_TIMEOUT: Final = {"transaction_timeout": "0"}
_HAS_TRANSACTION_TIMEOUT: Final = 170_000
# A client that vanished in mid-transaction holds locks that others wait for. Every replica waits
# for the locks of the hot steps, so those are released much sooner.
_IDLE: Final = {"idle_in_transaction_session_timeout": "'10min'"}
_IDLE_BY_KEY: Final = {"idle_in_transaction_session_timeout": "'10s'"}
# With another path, an operator or function that was planted in `public` or in a tenant's schema
# could be a better match than the built-in one, and would run with our rights.
_NAMES: Final = {"search_path": "pg_catalog"}
# psycopg reads ISO dates and Postgres intervals only. Arithmetic on times of a zone with summer
# time is arithmetic on its wall clock, so it is done in UTC.
_TEXT_FORMATS: Final = {"datestyle": "'ISO, MDY'", "intervalstyle": "'postgres'"}
_VALUES: Final = _TEXT_FORMATS | {
    "timezone": "'UTC'",
    "extra_float_digits": "1",
    # Otherwise a NULL in an array becomes the word.
    "array_nulls": "on",
    "standard_conforming_strings": "on",
}
# Compiling a plan takes longer than any of ours runs: 2 s for a claim of 30 ms.
_PLANS: Final = {"jit": "off", "plan_cache_mode": "auto"}
# The ways to read and join that our statements were written and measured with.
_WAYS: Final = dict.fromkeys(
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
# analysed and has a thousand rows, with everything that ended since the last vacuum. Without those,
# the planner takes bitmap scans, which pass over dead index entries again and again; a plain index
# scan marks them and skips them from then on. `jit` is off, so the cost that the first switch adds
# has no other effect.
_SCANS_BY_KEY: Final = {"enable_seqscan": "off", "enable_bitmapscan": "off"}


@cache
def beginning(server_version: int, *, by_key: bool = False) -> str:
    """Return the statements that begin a transaction; no parameters, no `%`.

    `server_version` is libpq's number, such as 150020. `by_key` is for the hot steps, which look up
    a few hundred rows by their keys.
    """
    pins = dict(_TIMEOUTS)
    if server_version >= _HAS_TRANSACTION_TIMEOUT:
        pins |= _TRANSACTION_TIMEOUT
    pins |= _IDLE_BY_KEY if by_key else _IDLE
    pins |= _NAMES | _VALUES | _PLANS | _WAYS
    pins |= _SCANS_BY_KEY if by_key else _SCANS
    return _script(pins)


def beginning_with_few() -> str:
    """Return the statements that begin a transaction whose statements depend on the path alone.

    An idle replica sends little else than such transactions, and the pins would be most of it.
    """
    return _script(_NAMES)


def beginning_for_handlers() -> str:
    """Return the statements that begin a handler's transaction.

    Its statements are the platform's, which may have set time zone, timeouts and planner for them
    on purpose. Only what the driver cannot read is pinned.
    """
    return _script(_TEXT_FORMATS)


def _script(pins: dict[str, str]) -> str:
    return "; ".join([_BEGIN, *(f"SET LOCAL {name} TO {value}" for name, value in pins.items())])
