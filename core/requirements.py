"""Requirements: what an execution needs from the replica that runs it, as one short text.

`saga:<name>` requires a handler for that saga. The kind of a target (`http`) requires a replica
that serves such targets. A replica declares its capabilities in the same form, where `*` and `?`
match any characters: `saga:*` is a catch-all.
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


def requirement(saga: str, target: str | None) -> str:
    """Return the requirement of a saga: the kind of its target, or a handler if it has none."""
    return f"{SAGA}{saga}" if target is None else target


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
    return f"{required} targets"
