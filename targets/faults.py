"""Exceptions of handlers as text for the history."""

import traceback
from types import TracebackType
from typing import Final

from tenantcron.core.credentials import without_credentials
from tenantcron.targets.signals import Fail, Retry, WithoutTraceback

LONGEST_TEXT: Final = 4 * 1024
LONGEST_HEADLINE: Final = 1024
DEEPEST_FRAMES: Final = 8


class Described(Exception):  # noqa: N818 -- it only carries another error
    """Carries the text that `described` returned in another process."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def described(error: BaseException, headline: str | None = None) -> str:
    """Return a headline, then the last frames and causes; at most 4 KiB that Postgres can store."""
    if isinstance(error, Described) and headline is None:
        return _cut(storable(error.text), LONGEST_TEXT)
    head = _cut(storable(headline or headline_of(error)), LONGEST_HEADLINE)
    if isinstance(error, WithoutTraceback):
        return head
    frames = storable(error.text if isinstance(error, Described) else _frames(error))
    return f"{head}\n\n{_cut_front(frames, LONGEST_TEXT - len(head.encode()) - 2)}"


def headline_of(error: BaseException) -> str:
    """Return the type and the message; for `Retry` and `Fail` only the reason."""
    if isinstance(error, Retry | Fail) and error.reason:
        return without_credentials(str(error.reason))
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 -- a broken `__str__` must not hide the failure
        message = "(its message cannot be shown)"
    message = without_credentials(message)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def storable(text: str) -> str:
    """Remove what PostgreSQL cannot store as text: NUL and unpaired surrogates."""
    return text.replace("\0", "").encode("utf-8", "backslashreplace").decode()


def _frames(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(
            type(error), error, _without_ours(error.__traceback__), limit=-DEEPEST_FRAMES
        )
    except Exception:  # noqa: BLE001 -- as above: handlers define their own exceptions
        return "(its traceback cannot be shown)"
    return without_credentials("".join(lines).strip())


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """Drop the first frame, which is our call of the handler."""
    return frames.tb_next if frames and frames.tb_next else frames


def _cut(text: str, most: int) -> str:
    if len(text) <= most and len(text.encode()) <= most:
        return text
    return text[:most].encode()[: most - 3].decode(errors="ignore") + "…"


def _cut_front(text: str, most: int) -> str:
    if len(text) <= most and len(text.encode()) <= most:
        return text
    return "…" + text[-most:].encode()[-(most - 3) :].decode(errors="ignore")
