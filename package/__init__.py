"""tenantcron: a multi-tenant cron scheduler. Schedules are declared in Git and fire exactly once.

This package exports the names that handlers use, and those that submit tasks. They are imported
lazily, because `tenantcron validate` does not need them and must start quickly.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenantcron.targets.authorising import Allowed, AuthorisationRequest, Refused
    from tenantcron.targets.execution import Execution
    from tenantcron.targets.python.registry import authoriser, saga
    from tenantcron.targets.signals import Cancelled, Fail, Retry
    from tenantcron.targets.tokens import TokenError
    from tenantcron.tasks import submit, submit_async, submit_many, submit_many_async

__all__ = [
    "Allowed",
    "AuthorisationRequest",
    "Cancelled",
    "Execution",
    "Fail",
    "Refused",
    "Retry",
    "TokenError",
    "authoriser",
    "saga",
    "submit",
    "submit_async",
    "submit_many",
    "submit_many_async",
]

# Hidden from type checkers, which use the imports above. With this function any name would pass.
if not TYPE_CHECKING:
    _MODULES = {
        "Allowed": "tenantcron.targets.authorising",
        "AuthorisationRequest": "tenantcron.targets.authorising",
        "Cancelled": "tenantcron.targets.signals",
        "Execution": "tenantcron.targets.execution",
        "Fail": "tenantcron.targets.signals",
        "Refused": "tenantcron.targets.authorising",
        "Retry": "tenantcron.targets.signals",
        "TokenError": "tenantcron.targets.tokens",
        "authoriser": "tenantcron.targets.python.registry",
        "saga": "tenantcron.targets.python.registry",
        "submit": "tenantcron.tasks",
        "submit_async": "tenantcron.tasks",
        "submit_many": "tenantcron.tasks",
        "submit_many_async": "tenantcron.tasks",
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 -- faster start-up

        return getattr(import_module(_MODULES[name]), name)
