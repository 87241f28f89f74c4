"""Requirements: what an execution needs from the replica that runs it, as one short text.

`saga:<name>` requires a handler for that saga. The kind of a target (`http`) requires a replica
that serves such targets. `http:<host>` requires the same and a call of that host's rate limit, see
`store/steps/rate_limits.py`. A replica declares its capabilities in the same form, where `*` and
`?` match any characters: `saga:*` is a catch-all.
"""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from tenantcron.core.values import JsonValue

SAGA: Final = "saga:"
CATCH_ALL: Final = "*"


class TargetKind(StrEnum):
    """The kinds of targets that a replica can serve."""

    HTTP = "http"
    GRPC = "grpc"
    CELERY = "celery"
    TEMPORAL = "temporal"


def requirement(saga: str, target: str | None) -> str:
    """Return the requirement of a saga: the kind of its target, or a handler if it has none."""
    return f"{SAGA}{saga}" if target is None else target


def at_host(kind: str, host: str) -> str:
    """Return the requirement of a target whose host has a rate limit."""
    return f"{kind}:{host}"


def limited_host(required: str) -> tuple[str, str] | None:
    """Return the kind and the host of a requirement; None if it names no host."""
    kind, _, host = required.partition(":")
    return (kind, host) if host and not required.startswith(SAGA) else None


def target_kind(definition: JsonValue) -> str | None:
    """Return the kind of the target in a definition; None if a handler runs the saga."""
    target = definition.get("target") if isinstance(definition, dict) else None
    return next(iter(target), None) if isinstance(target, dict) else None


def covers(capabilities: Iterable[str], required: str) -> bool:
    """Whether any of the capabilities meets a requirement."""
    return any(fnmatchcase(required, capability) for capability in capabilities)


def described(required: str) -> str:
    """Return the requirement in words."""
    if required.startswith(SAGA):
        return f"saga `{required.removeprefix(SAGA)}`"
    if (limited := limited_host(required)) is not None:
        kind, host = limited
        return f"{kind} targets at {host}"
    return f"{required} targets"
