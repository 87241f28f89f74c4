"""The short form of triggers: `scheduled:<name>`, `scheduled:<name>:<cron>`, or another kind."""

from typing import NamedTuple

from tenantcron.core.lookalikes import to_ascii
from tenantcron.core.names import NAME_EXPECTED, NAME_PATTERN, ScheduleName, is_name
from tenantcron.core.suggest import close_match
from tenantcron.core.words import shortened
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.hints import for_name, is_cron, with_foreign_letter

OURS = "scheduled"
OTHERS = ("api", "webhook", "event")


class ShortTrigger(NamedTuple):
    """The name of a schedule, and its cron expression if the trigger has one."""

    name: ScheduleName
    cron: str | None


def read_short_trigger(text: str, at: Pointer, saga: str | None) -> ShortTrigger | Fault | None:
    """Read the short form of a saga's trigger, None if it belongs to another tool."""
    kind, _, rest = text.partition(":")
    if kind in OTHERS:
        return None
    if kind != OURS:
        message = f"`{shortened(kind)}` is not a kind of trigger"
        return Fault("TC112", message, at, _meant(text, kind, saga or "<name>"))
    name, has_cron, cron = rest.partition(":")
    if not is_name(name):
        shown = (
            f"`{shortened(name)}` is not {NAME_EXPECTED}" if name else "the schedule has no name"
        )
        hint = for_name(name, NAME_PATTERN) or "write scheduled:<name> or scheduled:<name>:<cron>"
        return Fault("TC107", shown, at, hint)
    return ShortTrigger(ScheduleName(name), cron if has_cron else None)


def _meant(text: str, kind: str, saga: str) -> str:
    """Return what to write instead of an unknown kind."""
    if is_cron(text):
        return f'write `trigger: "{OURS}:{saga}:{text}"`'
    meant = close_match(to_ascii(kind) or kind, (OURS, *OTHERS))
    hint = f"did you mean `{meant}:`?" if meant else f"use {', '.join((OURS, *OTHERS))}"
    return with_foreign_letter(kind, hint) or hint
