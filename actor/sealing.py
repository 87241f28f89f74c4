"""Private keys at rest: encrypted, and bound to the name they are kept under.

AES-256 in GCM, a fresh nonce each time, the name of the key as associated data: a sealed key that
somebody moves to another row, or changes by one bit, does not open.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tenantcron.core.errors import TenantcronError
from tenantcron.core.master_keys import MasterKey

_NONCE: Final = 12


class SealError(TenantcronError):
    """What was sealed cannot be opened with the master keys at hand."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """An encrypted private key, and the name of the master key that it was sealed with."""

    data: bytes = field(repr=False)
    sealed_by: str


def seal(secret: bytes, kid: str, master: MasterKey) -> Sealed:
    """Encrypt a private key for the name that it will be kept under."""
    nonce = os.urandom(_NONCE)
    encrypted = AESGCM(master.secret).encrypt(nonce, secret, kid.encode())
    return Sealed(nonce + encrypted, master.id)


def unseal(sealed: Sealed, kid: str, masters: Sequence[MasterKey]) -> bytes:
    """Decrypt a private key with the master key that it was sealed with."""
    master = next((one for one in masters if one.id == sealed.sealed_by), None)
    if master is None:
        held = ", ".join(one.id for one in masters) or "none"
        raise SealError(
            f"the signing key {kid} was sealed with the master key {sealed.sealed_by}, and "
            f"TENANTCRON_MASTER_KEY has {held}: add that one to it"
        )
    nonce, encrypted = sealed.data[:_NONCE], sealed.data[_NONCE:]
    try:
        return AESGCM(master.secret).decrypt(nonce, encrypted, kid.encode())
    except (InvalidTag, ValueError):
        raise SealError(
            f"the signing key {kid} is not what was sealed: its row was changed. Retire it, and "
            "make a new one with `tenantcron keys rotate --now`"
        ) from None
