"""Client libraries of built-in kinds of targets, which are optional dependencies."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.requirements import TargetKind

# The modules of the libraries; the extra has the name of the kind.
_LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {
    TargetKind.GRPC: ("grpc",),
    TargetKind.CELERY: ("celery",),
    TargetKind.TEMPORAL: ("temporalio", "grpc"),
}


def has_library(kind: str) -> bool:
    """Whether the libraries of a built-in kind are installed, without importing them."""
    return all(find_spec(module) is not None for module in _LIBRARIES.get(kind, ()))


def require_library(kind: str) -> None:
    """Raise a UsageError if the library of a kind is not installed."""
    if not has_library(kind):
        raise UsageError(
            f"{kind} targets need another library: install tenantcron[{kind}], or remove {kind} "
            "from --targets"
        )
