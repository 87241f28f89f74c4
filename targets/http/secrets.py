"""Secrets of requests; they are stored outside tenantcron and read for each request."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tenantcron.core.secret_refs import SecretRef, may_use
from tenantcron.targets.responses import FailCall, RetryCall

LONGEST_SECRET: Final = 64 * 1024


async def read_secret(ref: SecretRef, allowed: Iterable[str]) -> bytes:
    """Return a secret; a missing one is retried, because it may be added later."""
    check_allowed(ref, allowed)
    if ref.kind == "env":
        secret = os.environ.get(ref.name, "").encode(errors="surrogateescape")
    else:
        secret = await asyncio.to_thread(_content, ref)
    if not secret:
        raise RetryCall(f"the secret {ref} is missing or empty, so no request can be sent")
    return secret


def check_allowed(ref: SecretRef, allowed: Iterable[str]) -> None:
    """Fail if the policy does not allow a reference: a stored definition can be edited."""
    if not may_use(ref, allowed):
        raise FailCall(
            f"{ref} is not among the secrets that this tenant may use: the platform team can "
            f'add "{ref}" to allowed_secrets in the [policy] table'
        )


def _content(ref: SecretRef) -> bytes:
    """Return the content of a file, without the trailing line break that editors add."""
    try:
        with Path(ref.name).open("rb") as file:
            return file.read(LONGEST_SECRET).rstrip(b"\r\n")
    except OSError as error:
        raise RetryCall(f"the secret {ref} cannot be read: {error.strerror}") from None
