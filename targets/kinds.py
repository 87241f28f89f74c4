"""The registry of kinds: which adapter serves which kind of target.

Built-in kinds are in the folders beside this module. Others are entry points of other
distributions:

    [project.entry-points."tenantcron.targets"]
    acme_queue = "acme.tenantcron:QueueTarget"

Only kinds that the policy names are looked up, and only adapters that are used are imported.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final, cast

from tenantcron.core.errors import UsageError
from tenantcron.core.plugins import is_installed, load_plugin
from tenantcron.core.requirements import TargetKind
from tenantcron.core.targets import GROUP
from tenantcron.targets.contract import RunnerServices, TargetAdapter, TargetRunner
from tenantcron.targets.extras import has_library

# The module and the class of each built-in adapter.
_BUILT_IN: Final[Mapping[str, tuple[str, str]]] = {
    TargetKind.HTTP: ("tenantcron.targets.http.runner", "HttpAdapter"),
    TargetKind.GRPC: ("tenantcron.targets.grpc.runner", "GrpcAdapter"),
    TargetKind.CELERY: ("tenantcron.targets.celery.runner", "CeleryAdapter"),
    TargetKind.TEMPORAL: ("tenantcron.targets.temporal.runner", "TemporalAdapter"),
}
_PLACE: Final = "target_kinds of the policy"


def installed(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds whose adapter is installed here."""
    return tuple(kind for kind in kinds if _is_installed(kind))


def _is_installed(kind: str) -> bool:
    if kind in _BUILT_IN:
        return has_library(kind)
    return is_installed(GROUP, kind)


def open_runner(kind: str, services: RunnerServices) -> TargetRunner:
    """Import an adapter and open its runner; raise a UsageError if that fails."""
    return load_adapter(kind).open(services)


def load_adapter(kind: str) -> TargetAdapter:
    """Import the adapter of a kind; raise a UsageError if there is none, or if it is invalid."""
    if kind in _BUILT_IN:
        module, name = _BUILT_IN[kind]
        return cast("TargetAdapter", getattr(import_module(module), name)())
    loaded = load_plugin(GROUP, kind, _PLACE)
    adapter: object = loaded() if isinstance(loaded, type) else loaded
    if not hasattr(adapter, "options_schema") or not callable(getattr(adapter, "open", None)):
        raise UsageError(
            f"{_PLACE}: the entry point {kind!r} is not a kind of target: it needs "
            "`options_schema` and `open`, as tenantcron.targets.contract describes"
        )
    return cast("TargetAdapter", adapter)
