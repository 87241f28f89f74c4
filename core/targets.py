"""The target of a schedule: where its saga runs if no Python handler runs it."""

from datetime import timedelta
from typing import Final, NamedTuple, TypeAlias

from tenantcron.core.auth import Auth
from tenantcron.core.requirements import TargetKind
from tenantcron.core.values import JsonObject

# The entry points that serve kinds of targets which are not built in.
GROUP: Final = "tenantcron.targets"


class HttpTarget(NamedTuple):
    """An HTTP endpoint that runs the saga."""

    url: str
    method: str
    headers: dict[str, str]
    auth: Auth | None = None
    # A worker reports the end of an attempt, with at most this long between two heartbeats. None:
    # the response ends it.
    heartbeat: timedelta | None = None

    @property
    def kind(self) -> str:
        """The kind of the target."""
        return TargetKind.HTTP


class OtherTarget(NamedTuple):
    """A target of another kind; only the adapter of the kind reads its options."""

    kind: str
    options: JsonObject


Target: TypeAlias = HttpTarget | OtherTarget
