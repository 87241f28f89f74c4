"""The short form of triggers: `scheduled:<name>`, `scheduled:<name>:<cron>`, or another kind."""

from typing import NamedTuple

from tenantcron.core.names import NAME_EXPECTED, ScheduleName, is_name
from tenantcron.core.suggest import close_match
from tenantcron.core.words import shortened
from tenantcron.manifests.diagnostics import Fault, Pointer

OURS = "scheduled"
OTHERS = ("api", "webhook", "event")


class ShortTrigger(NamedTuple):
    """The name of a schedule, and its cron expression if the trigger has one."""

    name: ScheduleName
    cron: str | None


def read_short_trigger(text: str, at: Pointer) -> ShortTrigger | Fault | None:
    """Read the short form of a trigger, None if it belongs to another tool."""
    kind, _, rest = text.partition(":")
    if kind in OTHERS:
        return None
    if kind != OURS:
        meant = close_match(kind, (OURS, *OTHERS))
        hint = f"did you mean `{meant}:`?" if meant else f"use {', '.join((OURS, *OTHERS))}"
        return Fault("TC112", f"`{shortened(kind)}` is not a kind of trigger", at, hint)
    name, has_cron, cron = rest.partition(":")
    if not is_name(name):
        shown = (
            f"`{shortened(name)}` is not {NAME_EXPECTED}" if name else "the schedule has no name"
        )
        return Fault("TC107", shown, at, "write scheduled:<name> or scheduled:<name>:<cron>")
    return ShortTrigger(ScheduleName(name), cron if has_cron else None)
