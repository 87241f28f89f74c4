"""Providers of the platform: entry points of the group `tenantcron.providers`.

    [project.entry-points."tenantcron.providers"]
    crm = "my_platform.schedules:provider"

The setting `providers = "crm"` names those to use. The entry point is a callable without arguments
that returns a `ScheduleProvider`. If one cannot be loaded, the start fails: a scheduler without it
would silently ignore its schedules.
"""

from collections.abc import Sequence

from tenantcron.core.errors import UsageError
from tenantcron.core.names import is_name
from tenantcron.core.plugins import load_plugin
from tenantcron.provider.protocol import ScheduleProvider

GROUP = "tenantcron.providers"
_LONGEST_NAME = 32
# The built-in providers.
_BUILT_IN = ("tenant", "static")
_METHODS = ("has_moved", "tenants", "settle")


def load_providers(names: Sequence[str]) -> tuple[ScheduleProvider, ...]:
    """Load the providers that the settings name; raise a UsageError if one is invalid."""
    loaded = tuple(_load(name) for name in names)
    taken = set(_BUILT_IN)
    for provider in loaded:
        if provider.name in taken:
            raise UsageError(
                f"providers: two providers have the name {provider.name!r}, and each would remove "
                "the schedules of the other"
            )
        taken.add(provider.name)
    return loaded


def _load(entry: str) -> ScheduleProvider:
    make = load_plugin(GROUP, entry, "providers")
    if not callable(make):
        raise UsageError(f"providers: the entry point {entry!r} is not callable")
    try:
        provider = make()
    except Exception as error:
        kind = type(error).__name__
        raise UsageError(f"providers: {entry!r} cannot be created: {kind}: {error}") from error
    return _checked(entry, provider)


def _checked(entry: str, provider: ScheduleProvider) -> ScheduleProvider:
    missing = [name for name in _METHODS if not callable(getattr(provider, name, None))]
    if missing:
        raise UsageError(
            f"providers: {entry!r} is not a schedule provider: it has no {', '.join(missing)}"
        )
    name = getattr(provider, "name", None)
    if not isinstance(name, str) or not is_name(name) or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"providers: the name of {entry!r} must be a-z first, then a-z, 0-9, _ or -, at most "
            f"{_LONGEST_NAME} characters"
        )
    return provider
