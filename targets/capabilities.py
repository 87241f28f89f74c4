"""Capabilities: what one replica can run.

They come from its handlers and from the kinds of targets that it serves, limited by `--only` and
`--targets`. A replica with a catch-all (a handler for `*`, or a default target) can run any saga,
but claims only sagas that no other replica has recently declared by name.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.requirements import CATCH_ALL, SAGA, TargetKind, at_host, covers
from tenantcron.core.suggest import close_match
from tenantcron.targets.python.registry import Handlers

NO_TARGETS: Final = "none"
_SHOWN = 10
# The kinds of targets whose host is known.
_KINDS_WITH_HOSTS: Final = (TargetKind.HTTP, TargetKind.GRPC)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a replica can run, in the form of requirements."""

    # One for each handler, one for each kind of target.
    named: tuple[str, ...] = ()
    # Patterns of the sagas that the catch-all runs; empty without a catch-all.
    patterns: tuple[str, ...] = ()
    # Kinds of targets at hosts with a rate limit. They are claimed separately.
    limited: tuple[str, ...] = ()

    @property
    def declared(self) -> tuple[str, ...]:
        """All capabilities, as other replicas and users see them."""
        return (*self.named, *self.limited, *self.patterns)

    def names(self, required: str) -> bool:
        """Whether the replica declares a requirement by name, not only through a catch-all."""
        return required in self.named or required in self.limited

    def with_limits(self, hosts: Iterable[str]) -> "Capabilities":
        """Return the same capabilities if these hosts have a rate limit."""
        kinds = [kind for kind in _KINDS_WITH_HOSTS if kind in self.named]
        return replace(self, limited=tuple(at_host(kind, host) for host in hosts for kind in kinds))

    def among(self, unnamed: Sequence[str]) -> tuple[str, ...]:
        """Return the named capabilities, and the `unnamed` requirements that the catch-all runs."""
        others = (required for required in unnamed if required not in self.named)
        return (*self.named, *(required for required in others if covers(self.patterns, required)))

    def cover(self, required: str) -> bool:
        """Whether this replica can run executions with this requirement."""
        return self.names(required) or covers(self.patterns, required)


# For programs that run steps without handlers, such as tests.
ANYTHING: Final = Capabilities((TargetKind.HTTP.value,), (f"{SAGA}{CATCH_ALL}",))


@dataclass(frozen=True, slots=True)
class CapabilityLimits:
    """What a replica is dedicated to, from the command line or the settings."""

    # Patterns such as `saga:report_*`; empty: all.
    only: tuple[str, ...] = ()
    # Kinds of targets; None: all that it can serve, or none if `only` is set.
    targets: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServedKinds:
    """The kinds of targets that a replica could serve."""

    # All that the policy allows, and those of them that it serves by default.
    known: tuple[str, ...] = (TargetKind.HTTP.value,)
    usable: tuple[str, ...] = ()
    # The kind of the default target.
    default: str | None = None


def capabilities(handlers: Handlers, limits: CapabilityLimits, served: ServedKinds) -> Capabilities:
    """Return what a replica can run; raise a UsageError for a pattern that matches no saga."""
    kinds = _kinds(limits, served)
    catches_all = handlers.catch_all is not None or served.default in kinds
    patterns = limits.only or (f"{SAGA}{CATCH_ALL}",)
    sagas = [f"{SAGA}{name}" for name in handlers.names]
    for pattern in limits.only:
        _check_pattern(pattern, sagas, catches_all=catches_all)
    named = (saga for saga in sagas if covers(patterns, saga))
    return Capabilities((*sorted(named), *sorted(kinds)), patterns if catches_all else ())


def _kinds(limits: CapabilityLimits, served: ServedKinds) -> Collection[str]:
    if limits.targets is None:
        return () if limits.only else served.usable
    if limits.targets == (NO_TARGETS,):
        return ()
    for kind in limits.targets:
        if kind not in served.known:
            raise UsageError(
                f"there is no kind of target {kind!r}: use {' or '.join(served.known)}, or "
                f"{NO_TARGETS}; target_kinds of the policy adds others"
            )
    return limits.targets


def _check_pattern(pattern: str, sagas: Sequence[str], *, catches_all: bool) -> None:
    if not pattern.startswith(SAGA) or pattern == SAGA:
        raise UsageError(
            f"{pattern!r} is not a pattern of sagas: use {SAGA}NAME, with * for any characters; "
            "--targets limits the kinds of targets"
        )
    if "[" in pattern:
        raise UsageError(f"{pattern!r} has a bracket: patterns only support * and ?")
    if catches_all or any(fnmatchcase(saga, pattern) for saga in sagas):
        return
    raise UsageError(f"no loaded handler matches {pattern!r}: {_loaded(pattern, sagas)}")


def _loaded(pattern: str, sagas: Sequence[str]) -> str:
    if not sagas:
        return "no handler is loaded; load modules with --handlers"
    meant = close_match(pattern, sagas)
    if meant is not None:
        return f"did you mean {meant}?"
    shown = ", ".join(sorted(sagas)[:_SHOWN])
    more = len(sagas) - _SHOWN
    return f"there are {shown}" + (f" and {more} more" if more > 0 else "")
