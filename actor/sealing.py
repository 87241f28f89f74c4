"""Encryption of private keys at rest, bound to their key ids.

AES-256-GCM with a random nonce; the key id is the associated data. A sealed key that was moved to
another row or changed by one bit cannot be decrypted.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tenantcron.core.errors import DeclinedError
from tenantcron.core.master_keys import MasterKey

_NONCE: Final = 12


class SealError(DeclinedError):
    """A sealed key cannot be decrypted with the available master keys."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """An encrypted private key and the id of the master key that sealed it."""

    data: bytes = field(repr=False)
    sealed_by: str


def seal(secret: bytes, kid: str, master: MasterKey) -> Sealed:
    """Encrypt a private key and bind it to its key id."""
    nonce = os.urandom(_NONCE)
    encrypted = AESGCM(master.secret).encrypt(nonce, secret, kid.encode())
    return Sealed(nonce + encrypted, master.id)


def unseal(sealed: Sealed, kid: str, masters: Sequence[MasterKey]) -> bytes:
    """Decrypt a private key with the master key that sealed it."""
    by_id = {master.id: master for master in masters}
    master = by_id.get(sealed.sealed_by)
    if master is None:
        available = ", ".join(by_id) or "none"
        raise SealError(
            f"the signing key {kid} was sealed with the master key {sealed.sealed_by}, and "
            f"TENANTCRON_MASTER_KEY has {available}: add the missing key"
        )
    nonce, encrypted = sealed.data[:_NONCE], sealed.data[_NONCE:]
    try:
        return AESGCM(master.secret).decrypt(nonce, encrypted, kid.encode())
    except (InvalidTag, ValueError):
        raise SealError(
            f"the signing key {kid} cannot be decrypted: its row was changed. Retire it, and "
            "create a new one with `tenantcron keys rotate --now`"
        ) from None
