"""What the exit codes of each command mean, for the manual pages and the documentation."""

from dataclasses import dataclass

_NOT_USED = "not used"
_WRONG_USAGE = "wrong usage"
_NO_FILE = "wrong usage, a missing file"
_NO_DATABASE = "wrong usage, no database"


@dataclass(frozen=True, slots=True)
class ExitCodes:
    """The meaning of the codes 0, 1 and 2."""

    success: str
    failure: str
    misuse: str


_OPERATED = ExitCodes("done", "refused, or it does not exist", _NO_DATABASE)
_FINDINGS = ExitCodes("no findings", "findings", _NO_DATABASE)
_RECONCILED = ExitCodes("success", "a tenant failed", _NO_DATABASE)
_SERVED = ExitCodes("stopped as requested", "a stop was forced", _NO_DATABASE)

EXIT_CODES = {
    "init": ExitCodes("written", _NOT_USED, f"{_WRONG_USAGE}, a file exists already"),
    "dev": ExitCodes(
        "stopped as requested", "the server has ended", f"{_WRONG_USAGE}, a missing extra"
    ),
    "validate": ExitCodes("no errors", "errors; with `--strict` also warnings", _NO_FILE),
    "next": ExitCodes("shown", "an expression or a manifest has errors", _NO_FILE),
    "explain": ExitCodes("shown", _NOT_USED, f"{_WRONG_USAGE}, an unknown code"),
    "schema": ExitCodes("shown", _NOT_USED, _NO_FILE),
    "context": ExitCodes("done", "the context does not exist", _WRONG_USAGE),
    "completion": ExitCodes("shown", _NOT_USED, _WRONG_USAGE),
    "man": ExitCodes("written", _NOT_USED, f"{_WRONG_USAGE}, the folder cannot be written"),
    "plan": _RECONCILED,
    "plan --detailed-exitcode": ExitCodes(
        "no changes", "a tenant failed", f"changes; {_WRONG_USAGE} and no database are 3"
    ),
    "apply-manifest": _RECONCILED,
    "run": _SERVED,
    "serve": _SERVED,
    "schedule": _OPERATED,
    "execution": _OPERATED,
    "task": _OPERATED,
    "limits": _OPERATED,
    "tenant": _OPERATED,
    "tenant refresh": ExitCodes(
        "in sync", "problems; with `--check` also differences", _NO_DATABASE
    ),
    "token": _OPERATED,
    "keys": _OPERATED,
    "webhook": _OPERATED,
    "history": ExitCodes("shown", "the tenant or the schedule does not exist", _NO_DATABASE),
    "why": ExitCodes("explained", "the schedule does not exist", _NO_DATABASE),
    "logs": ExitCodes(
        "shown; with `--follow` it succeeded", "it does not exist or did not succeed", _NO_DATABASE
    ),
    "health": _FINDINGS,
    "audit": _FINDINGS,
    "migrate": ExitCodes("done", "a tenant failed, or `--check` found a difference", _NO_DATABASE),
    "uninstall": ExitCodes("removed, or not installed", "nothing was removed", _NO_DATABASE),
}
