"""Master keys, which encrypt private keys before they are stored in the database.

Each is 32 bytes in base64 or hexadecimal. Several keys are separated by line breaks or commas: the
first one encrypts, all of them decrypt. This allows rotation while schedulers run.
"""

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from tenantcron.core.errors import TenantcronError

SIZE: Final = 32
EXPECTED: Final = "32 random bytes in base64 or hexadecimal: `openssl rand -base64 32` makes one"

_HEXADECIMAL: Final = re.compile(f"[0-9a-fA-F]{{{2 * SIZE}}}")
_URL_SAFE: Final = str.maketrans("-_", "+/")


class MasterKeyError(TenantcronError):
    """The text is not a master key; it is never shown."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    """One master key."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """A fingerprint that identifies the key without revealing it."""
        return sha256(b"tenantcron master key\0" + self.secret).hexdigest()[:16]


def parse_master_keys(text: str) -> tuple[MasterKey, ...]:
    """Parse one or more keys; the first one encrypts."""
    keys = tuple(_key(word) for word in re.split(r"[\s,]+", text.strip()) if word)
    if not keys:
        raise MasterKeyError(f"there is no master key in it: expected {EXPECTED}")
    return keys


def _key(word: str) -> MasterKey:
    secret = bytes.fromhex(word) if _HEXADECIMAL.fullmatch(word) else _from_base64(word)
    if len(secret) != SIZE:
        raise MasterKeyError(f"a master key has {len(secret)} bytes: expected {EXPECTED}")
    if len(set(secret)) == 1:
        raise MasterKeyError(f"a master key repeats a single byte: expected {EXPECTED}")
    return MasterKey(secret)


def _from_base64(word: str) -> bytes:
    padded = word.translate(_URL_SAFE).rstrip("=")
    try:
        return b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise MasterKeyError(f"a master key cannot be read: expected {EXPECTED}") from None
