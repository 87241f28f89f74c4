"""Problems: from what was raised to what the caller is told, as RFC 9457 has it.

`KNOWN` is the one table from errors to codes, and a code decides the status. What is in no table
is our fault: it is logged, and the caller gets an id to ask about.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from typing_extensions import TypedDict

from tenantcron.core.errors import UsageError
from tenantcron.reconciler.checking import CheckLostError
from tenantcron.reconciler.refusals import REFUSALS, RefusedError
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.operate.operator import OperationError
from tenantcron.service.responses.problem_types import PROBLEMS
from tenantcron.store.connection.errors import ConflictError, DatabaseError
from tenantcron.tenants.errors import TenantError, UnknownTenantError

MEDIA_TYPE: Final = "application/problem+json"
# So that callers who all met a slow database do not come back in the same second as before.
RETRY_AFTER: Final = 2

# The first that fits counts.
KNOWN: Final[tuple[tuple[type[Exception], str], ...]] = (
    (UnknownError, "TC703"),
    (UnknownTenantError, "TC703"),
    (TenantError, "TC704"),
    (OperationError, "TC704"),
    (ConflictError, "TC711"),
    (DatabaseError, "TC710"),
    (NoConnectionError, "TC710"),
    (UsageError, "TC707"),
)
# Words about the database are for those who run it.
_NOT_FOR_CALLERS: Final = "TC710"
# A statement was given up, for its time was over or somebody else held what it needed.
_GIVEN_UP: Final = ("57014", "55P03")
_INVALID_MANIFEST: Final = "TC605"


class ProblemBody(TypedDict):
    """What every problem says."""

    type: str
    title: str
    status: int
    detail: str
    code: str


class ApiProblem(Exception):  # noqa: N818 -- the word of RFC 9457
    """Something that the caller is told, with a code; `more` has keys of its own."""

    def __init__(
        self,
        code: str,
        detail: str,
        more: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.more = more or {}
        self.headers = headers or {}

    @property
    def status(self) -> HTTPStatus:
        """The status that it is answered with."""
        if self.code in PROBLEMS:
            return PROBLEMS[self.code].status
        unfit = self.code == _INVALID_MANIFEST
        return HTTPStatus.UNPROCESSABLE_ENTITY if unfit else HTTPStatus.CONFLICT

    def body(self) -> dict[str, object]:
        """Return the members of the problem."""
        rule = PROBLEMS[self.code].rule if self.code in PROBLEMS else REFUSALS[self.code]
        told: ProblemBody = {
            "type": f"urn:tenantcron:problem:{rule.name}",
            "title": rule.what,
            "status": self.status.value,
            "detail": self.detail,
            "code": self.code,
        }
        return {**told, **self.more}


def problem_of(error: Exception) -> ApiProblem | None:
    """Return what a caller is told about an error; None if it is not one that we know."""
    if isinstance(error, ApiProblem):
        return error
    if isinstance(error, RefusedError):
        return ApiProblem(error.code, error.message)
    if isinstance(error, CheckLostError):
        return unavailable(f"{error}: try again")
    if isinstance(error, DBAPIError):
        cause = error.orig
        given_up = isinstance(cause, psycopg.Error) and cause.sqlstate in _GIVEN_UP
        return unavailable() if given_up else None
    code = next((code for kind, code in KNOWN if isinstance(error, kind)), None)
    if code is None:
        return None
    return unavailable() if code == _NOT_FOR_CALLERS else ApiProblem(code, str(error))


def unavailable(detail: str = "the database does not answer in time: try again") -> ApiProblem:
    """Return the problem of a server that cannot answer now."""
    return ApiProblem("TC710", detail, headers={"Retry-After": str(RETRY_AFTER)})


def unauthenticated(detail: str) -> ApiProblem:
    """Return the problem of a caller who proves nothing."""
    return ApiProblem("TC701", detail, headers={"WWW-Authenticate": 'Bearer realm="tenantcron"'})


def invalid(detail: str, *errors: Mapping[str, object]) -> ApiProblem:
    """Return the problem of a request that is not as described."""
    return ApiProblem("TC707", detail, {"errors": list(errors)})
