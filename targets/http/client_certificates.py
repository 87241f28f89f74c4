"""Client certificates: an httpx client for each certificate, because a connection has one identity.

The files are checked for each request. If they have changed, a new client reads them, and the old
one closes when its requests have ended. A certificate and a key that do not match, as in the middle
of a rotation, fail the attempt, and the attempt is retried.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tenantcron.targets.http.credentials import CertificateFiles
from tenantcron.targets.responses import RetryCall

# A scheduler that calls no host never loads httpx.
if TYPE_CHECKING:
    import httpx

MOST_CERTIFICATES: Final = 100

_Version = tuple[tuple[int, int, int], ...]


@dataclass(slots=True, eq=False)
class _Identity:
    client: "httpx.AsyncClient"
    version: _Version
    requests: int = 0
    is_retired: bool = False

    async def close_if_unused(self) -> None:
        if self.is_retired and self.requests == 0:
            await self.client.aclose()


class ClientCertificates:
    """The clients of one replica that present certificates."""

    def __init__(
        self,
        new_context: Callable[[], ssl.SSLContext],
        new_client: Callable[[ssl.SSLContext], "httpx.AsyncClient"],
    ) -> None:
        self._new_context = new_context
        self._new_client = new_client
        # The least recently used first.
        self._identities: dict[CertificateFiles, _Identity] = {}

    @asynccontextmanager
    async def client(self, files: CertificateFiles) -> AsyncIterator["httpx.AsyncClient"]:
        """Provide the client that presents a certificate, for one request."""
        identity = await self._current(files)
        identity.requests += 1
        try:
            yield identity.client
        finally:
            identity.requests -= 1
            await identity.close_if_unused()

    async def close(self) -> None:
        """Close all connections."""
        for identity in self._identities.values():
            await identity.client.aclose()

    async def _current(self, files: CertificateFiles) -> _Identity:
        version = await asyncio.to_thread(_version, files)
        known = self._identities.get(files)
        if known is None or known.version != version:
            context = await asyncio.to_thread(self._load, files)
            # Another request may have loaded them in the meantime.
            known = self._identities.get(files)
        if known is None or known.version != version:
            await self._retire(files)
            known = _Identity(self._new_client(context), version)
        self._identities[files] = self._identities.pop(files, known)
        while len(self._identities) > MOST_CERTIFICATES:
            await self._retire(next(iter(self._identities)))
        return known

    async def _retire(self, files: CertificateFiles) -> None:
        identity = self._identities.pop(files, None)
        if identity is not None:
            identity.is_retired = True
            await identity.close_if_unused()

    def _load(self, files: CertificateFiles) -> ssl.SSLContext:
        context = self._new_context()
        try:
            # Without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(files.certificate, files.key, password="")
        except ssl.SSLError as error:
            raise RetryCall(
                f"{files.certificate} and {files.key} are not a certificate and its key in PEM "
                f"format without a passphrase: {error.reason or 'no PEM block'}"
            ) from None
        except OSError as error:
            raise _unreadable(files, error) from None
        return context


def _version(files: CertificateFiles) -> _Version:
    """Return what changes when a file is replaced or rewritten."""
    try:
        found = [Path(path).stat() for path in files]
    except OSError as error:
        raise _unreadable(files, error) from None
    return tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in found)


def _unreadable(files: CertificateFiles, error: OSError) -> RetryCall:
    path = error.filename or f"{files.certificate} or {files.key}"
    return RetryCall(f"the client certificate cannot be read: {path}: {error.strerror}")
