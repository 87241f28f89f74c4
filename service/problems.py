"""Problem details of the API (RFC 9457), and the mapping from exceptions to them.

`KNOWN` maps exceptions to codes, and a code determines the status. Any other exception is an
internal error: it is logged, and the caller receives its correlation id.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from typing_extensions import TypedDict

from tenantcron.core.errors import DeclinedError, NotFoundError, UsageError
from tenantcron.reconciler.checking import CheckLostError
from tenantcron.reconciler.refusals import REFUSALS, RefusedError
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.scheduler.steps.callbacks import OtherDeliveryError, StaleAttemptError
from tenantcron.service.responses.problem_types import PROBLEMS
from tenantcron.service.submissions import InvalidTaskError, KeyConflictError, OverQuotaError
from tenantcron.store.connection.errors import ConflictError, DatabaseError
from tenantcron.tenants.errors import TenantError, UnknownTenantError
from tenantcron.tenants.source.refresh import TurnLostError

MEDIA_TYPE: Final = "application/problem+json"
# Seconds. Spreads the retries of callers that met a slow database at the same time.
RETRY_AFTER: Final = 2
# Seconds, in which tasks of a tenant at its quota usually start.
_STARTS_AFTER: Final = 5

# The first match applies.
KNOWN: Final[tuple[tuple[type[Exception], str], ...]] = (
    (NotFoundError, "TC703"),
    (UnknownTenantError, "TC703"),
    (TenantError, "TC704"),
    (KeyConflictError, "TC731"),
    (OperationError, "TC704"),
    (TurnLostError, "TC711"),
    # Others that the command line reports with exit code 1.
    (DeclinedError, "TC704"),
    (StaleAttemptError, "TC730"),
    (OtherDeliveryError, "TC740"),
    (ConflictError, "TC711"),
    (DatabaseError, "TC710"),
    (NoConnectionError, "TC710"),
    (UsageError, "TC707"),
)
# Details about the database are for operators, not for callers.
_NOT_FOR_CALLERS: Final = "TC710"
# The statement timed out, or another session held a lock that it needed.
_TIMED_OUT: Final = ("57014", "55P03")
_INVALID_MANIFEST: Final = "TC605"


class ProblemBody(TypedDict):
    """The members of every problem."""

    type: str
    title: str
    status: int
    detail: str
    code: str


class ApiProblem(Exception):  # noqa: N818 -- the word of RFC 9457
    """A problem with a code, sent to the caller; `more` has additional members."""

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
        """The HTTP status."""
        if self.code in PROBLEMS:
            return PROBLEMS[self.code].status
        is_invalid = self.code == _INVALID_MANIFEST
        return HTTPStatus.UNPROCESSABLE_ENTITY if is_invalid else HTTPStatus.CONFLICT

    def body(self) -> dict[str, object]:
        """Return the members of the problem."""
        rule = PROBLEMS[self.code].rule if self.code in PROBLEMS else REFUSALS[self.code]
        body: ProblemBody = {
            "type": f"urn:tenantcron:problem:{rule.name}",
            "title": rule.what,
            "status": self.status.value,
            "detail": self.detail,
            "code": self.code,
        }
        return {**body, **self.more}


def problem_of(error: Exception) -> ApiProblem | None:
    """Return the problem of an exception; None if it is an internal error."""
    match error:
        case ApiProblem():
            return error
        case RefusedError():
            return ApiProblem(error.code, error.message)
        case InvalidTaskError() | OverQuotaError():
            return _submission_problem(error)
        case CheckLostError():
            return unavailable(f"{error}: retry")
        case DBAPIError():
            return unavailable() if is_timeout(error) else None
        case _:
            return _known_problem(error)


def _known_problem(error: Exception) -> ApiProblem | None:
    code = next((code for kind, code in KNOWN if isinstance(error, kind)), None)
    if code is None:
        return None
    return unavailable() if code == _NOT_FOR_CALLERS else ApiProblem(code, str(error), _hint(error))


def _hint(error: Exception) -> dict[str, object]:
    """Return what is wrong and what to do next as members; `detail` has both."""
    if isinstance(error, NotFoundError) and error.hint is not None:
        return {"problem": error.problem, "hint": error.hint}
    return {}


def is_timeout(error: DBAPIError) -> bool:
    """Whether a statement timed out, or waited too long for a lock."""
    cause = error.orig
    return isinstance(cause, psycopg.Error) and cause.sqlstate in _TIMED_OUT


def unavailable(detail: str = "the database did not respond in time: retry") -> ApiProblem:
    """Return the problem of a server that cannot respond now."""
    return ApiProblem("TC710", detail, headers={"Retry-After": str(RETRY_AFTER)})


def _submission_problem(error: InvalidTaskError | OverQuotaError) -> ApiProblem:
    if isinstance(error, InvalidTaskError):
        return invalid(error.detail, *error.errors)
    headers = {"Retry-After": str(_STARTS_AFTER)} if error.is_temporary else {}
    return ApiProblem("TC732", str(error), {"errors": list(error.errors)}, headers)


def unauthenticated(detail: str) -> ApiProblem:
    """Return the problem of a request that is not authenticated."""
    return ApiProblem("TC701", detail, headers={"WWW-Authenticate": 'Bearer realm="tenantcron"'})


def invalid(detail: str, *errors: Mapping[str, object]) -> ApiProblem:
    """Return the problem of a request that does not match the API description."""
    return ApiProblem("TC707", detail, {"errors": list(errors)})
