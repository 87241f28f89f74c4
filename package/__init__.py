"""tenantcron: schedules of many tenants, declared in Git and fired exactly once.

The names here are for handlers. They are imported when somebody asks for them: `tenantcron
validate` runs in every commit, and needs none of them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenantcron.targets.authorising import Allowed, AuthorisationRequest, Refused
    from tenantcron.targets.execution import Execution
    from tenantcron.targets.registry import authoriser, saga
    from tenantcron.targets.signals import Cancelled, Fail, Retry
    from tenantcron.targets.tokens import TokenError

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
]

# Type checkers read the imports above; to them this function would allow any name.
if not TYPE_CHECKING:
    _HOMES = {
        "Allowed": "tenantcron.targets.authorising",
        "AuthorisationRequest": "tenantcron.targets.authorising",
        "Cancelled": "tenantcron.targets.signals",
        "Execution": "tenantcron.targets.execution",
        "Fail": "tenantcron.targets.signals",
        "Refused": "tenantcron.targets.authorising",
        "Retry": "tenantcron.targets.signals",
        "TokenError": "tenantcron.targets.tokens",
        "authoriser": "tenantcron.targets.registry",
        "saga": "tenantcron.targets.registry",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 -- start-up does not pay for it

        return getattr(import_module(_HOMES[name]), name)
