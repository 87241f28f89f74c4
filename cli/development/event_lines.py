"""The log of the scheduler and the server, as lines for a person who develops handlers.

What happens to executions, what handlers log, and every warning is shown. The rest is not.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from rich.text import Text

from tenantcron.cli.development.children import OutputLine
from tenantcron.core.words import visible

SERVER_STARTED = "api_started"
SCHEDULER_STARTED = "scheduler_started"
# The outcomes of executions: the word for it, and its style.
_OUTCOMES = {
    "execution_succeeded": ("succeeded", "green"),
    "execution_retrying": ("failed, will be retried", "yellow"),
    "execution_dead": ("failed", "red"),
    "execution_skipped": ("skipped", "yellow"),
    "execution_cancelled": ("cancelled", "yellow"),
    "occurrences_missed": ("missed", "yellow"),
}
# `dev` serves the dashboard without tokens, which needs no warning.
_EXPECTED = ("api_anonymous",)
_SERIOUS = {"warning": "yellow", "error": "red", "critical": "red"}
# Fields that every line has, or that its beginning shows.
_HIDDEN = frozenset(
    {"timestamp", "level", "event", "tenant", "schedule", "saga", "execution", "attempt"}
    | {"actor", "correlation_id", "reason_code", "actor_type", "owner"}
)


@dataclass(slots=True)
class EventLines:
    """Turns the output of the children into lines, and counts outcomes."""

    outcomes: Counter[str] = field(default_factory=Counter)

    def line(self, output: OutputLine) -> Text | None:
        """Return the line to show; None for what is not worth showing."""
        event = event_of(output)
        if event is None:
            return Text(f"          {output.source}  {visible(output.text)}")
        name = str(event.get("event"))
        if name in _OUTCOMES:
            return self._outcome(event, *_OUTCOMES[name])
        if name in _EXPECTED:
            return None
        style = _SERIOUS.get(str(event.get("level")))
        if style is None and "execution" not in event:
            return None
        return _line(event, output.source, f"{name}{_fields(event)}", style or "")

    def _outcome(self, event: dict[str, object], word: str, style: str) -> Text:
        self.outcomes[word] += 1
        attempt, reason = event.get("attempt"), event.get("reason")
        words = word if attempt in (None, 1) else f"{word} at attempt {attempt}"
        return _line(event, "", f"{words}: {reason}" if reason else words, style)

    def summary(self) -> str:
        """Return the number of outcomes, the most frequent first."""
        if not self.outcomes:
            return "No execution has ended"
        return "Executions: " + ", ".join(
            f"{count} {word}" for word, count in self.outcomes.most_common()
        )


def event_of(output: OutputLine) -> dict[str, object] | None:
    """Return the event of a line; None for a line that is not a log event."""
    try:
        event = json.loads(output.text)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def _line(event: dict[str, object], source: str, words: str, style: str) -> Text:
    subject = "/".join(str(event[key]) for key in ("tenant", "schedule") if key in event)
    return Text.assemble(
        (_local_time(event), "dim"), "  ", visible(subject or source), "  ", (visible(words), style)
    )


def _local_time(event: dict[str, object]) -> str:
    moment = datetime.fromisoformat(str(event["timestamp"]))
    return moment.astimezone().strftime("%H:%M:%S")


def _fields(event: dict[str, object]) -> str:
    return "".join(f" {key}={value}" for key, value in event.items() if key not in _HIDDEN)
