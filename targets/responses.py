"""Responses of services: what is stored of them, and the errors that decide on a retry."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from tenantcron.core.credentials import HIDDEN, without_credentials
from tenantcron.targets.faults import storable
from tenantcron.targets.signals import Fail, Retry, WithoutTraceback

LONGEST_RESPONSE: Final = 2048

# `Authorization: Bearer abc`, `"api_key": "abc"`, `token=abc`: after a name or a scheme.
_CREDENTIALS = re.compile(
    r"""((?:authorization|cookie|api[-_]?key|token|secret|password|signature)["']?\s*[:=]\s*["']?)"""
    r"""(?:(?:bearer|basic|digest)\s+)?[^\s"',;&<>]+"""
    r"""|\b((?:bearer|basic)\s+)[A-Za-z0-9+/._~=-]{8,}""",
    re.IGNORECASE,
)


class RetryCall(WithoutTraceback, Retry):
    """The call failed, and a retry may succeed."""


class FailCall(WithoutTraceback, Fail):
    """The call failed, and a retry would fail again."""


@dataclass(slots=True)
class ServiceResponse:
    """The received part of a response: nothing, the status, or also the start of the body."""

    longest: ClassVar[int] = LONGEST_RESPONSE

    status: int | None = None
    text: str | None = None

    def keep(self, body: bytes, encoding: str, hidden: Iterable[str]) -> None:
        """Store the start of the body with secrets redacted."""
        self.text = shown(body, encoding, hidden)


@dataclass(slots=True)
class FullResponse(ServiceResponse):
    """A response that we parse ourselves; no body if it is compressed or too long."""

    body: bytes | None = None

    def keep(self, body: bytes, encoding: str, hidden: Iterable[str]) -> None:  # noqa: ARG002 -- it is not shown
        """Store the body."""
        is_complete = encoding in ("", "identity") and len(body) < self.longest
        self.body = body if is_complete else None


def shown(body: bytes, encoding: str, hidden: Iterable[str]) -> str:
    """Return the start of a body as text that may be stored."""
    if encoding not in ("", "identity"):
        # Decompressing it could exhaust the memory.
        return f"(not shown: the encoding is {storable(encoding[:40])})"
    text = redacted(storable(body.decode("utf-8", "replace")), hidden)
    return text.encode()[:LONGEST_RESPONSE].decode(errors="ignore")


def redacted(text: str, hidden: Iterable[str]) -> str:
    """Redact our credentials, and everything that looks like credentials."""
    text = without_credentials(text)
    for secret in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(secret, HIDDEN).replace(json.dumps(secret)[1:-1], HIDDEN)
    return _CREDENTIALS.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", text)
