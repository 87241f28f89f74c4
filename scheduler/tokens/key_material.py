"""The keys in the settings: master keys, and signing keys of the platform.

Both are read on first use, and again when their file changes: a secret that is mounted into a
container can change while the scheduler runs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tenantcron.actor.keys import KeyFormatError, PemKeys, from_pem
from tenantcron.core.errors import UsageError
from tenantcron.core.master_keys import MasterKey, MasterKeyError, parse_master_keys
from tenantcron.core.settings import PREFIX, Settings
from tenantcron.core.words import unreadable

T = TypeVar("T")


class KeyMaterial:
    """The keys of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._masters = _Secret(
            "master_key", settings.master_key, settings.master_key_file, parse_master_keys
        )
        self._own = _Secret("signing_key", settings.signing_key, settings.signing_key_file, _pem)

    def masters(self) -> tuple[MasterKey, ...]:
        """Return the master keys; the first one seals. Empty if there are none."""
        return self._masters.read() or ()

    def own(self) -> PemKeys | None:
        """Return the signing keys that replace those in the database."""
        return self._own.read()


class _Secret(Generic[T]):
    """A setting that is given as text or as a file."""

    def __init__(
        self, name: str, text: str | None, file: Path | None, parse: Callable[[str], T]
    ) -> None:
        self._name, self._text, self._file, self._parse = name, text, file, parse
        self._read: T | None = None
        self._seen: tuple[int, ...] | None = None

    def read(self) -> T | None:
        if self._file is not None:
            return self._from_file(self._file)
        if self._read is None and self._text is not None:
            self._read = self._parsed(self._text, PREFIX + self._name.upper())
        return self._read

    def _from_file(self, file: Path) -> T | None:
        try:
            state = file.stat()
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if seen != self._seen:
                self._read = self._parsed(file.read_text(encoding="utf-8"), str(file))
                self._seen = seen
        except (OSError, UnicodeDecodeError) as error:
            named = f"{PREFIX}{self._name.upper()}_FILE"
            raise UsageError(
                f"{file}: cannot read the file of {named}: {unreadable(error)}"
            ) from None
        return self._read

    def _parsed(self, text: str, place: str) -> T:
        try:
            return self._parse(text)
        except (MasterKeyError, KeyFormatError) as error:
            raise UsageError(f"{place}: {error}") from None


def _pem(text: str) -> PemKeys:
    # Some environments cannot hold line breaks and escape them.
    return from_pem(text.replace("\\n", "\n"))
