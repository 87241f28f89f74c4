"""Plug-ins: objects of other distributions, found by the name of their entry point.

A distribution declares an entry point in one of our groups, and the settings name it. No other
entry point is loaded.
"""

from tenantcron.core.errors import UsageError
from tenantcron.core.suggest import close_match


def is_installed(group: str, name: str) -> bool:
    """Whether an installed distribution has this entry point, without loading it."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- validate rarely needs it

    return bool(entry_points(group=group, name=name))


def load_plugin(group: str, name: str, place: str) -> object:
    """Load an entry point; raise a UsageError with its place and the cause on failure."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- validate rarely needs it

    found = {entry.name: entry for entry in entry_points(group=group)}
    entry = found.get(name)
    if entry is None:
        raise UsageError(
            f"{place}: no installed distribution has an entry point {name!r} in the group "
            f"{group!r}{_hint(name, list(found))}"
        )
    try:
        return entry.load()
    except Exception as error:
        kind = type(error).__name__
        raise UsageError(
            f"{place}: the entry point {name!r} ({entry.value}) cannot be loaded: {kind}: {error}"
        ) from error


def _hint(name: str, found: list[str]) -> str:
    match = close_match(name, found)
    if match:
        return f": did you mean {match!r}?"
    return f"; there are {', '.join(sorted(found))}" if found else ""
