"""Encryption of private keys at rest."""

import os

import pytest

from tenantcron.actor.sealing import Sealed, SealError, seal, unseal
from tenantcron.core.master_keys import MasterKey

MASTER, OTHER = MasterKey(os.urandom(32)), MasterKey(os.urandom(32))
SECRET = b"a private key"


def test_a_sealed_key_is_decrypted_with_its_master_key_among_others() -> None:
    sealed = seal(SECRET, "kid", MASTER)
    assert sealed.sealed_by == MASTER.id
    assert unseal(sealed, "kid", [OTHER, MASTER]) == SECRET


def test_a_sealed_key_does_not_contain_the_secret_and_is_different_each_time() -> None:
    first, second = seal(SECRET, "kid", MASTER), seal(SECRET, "kid", MASTER)
    assert SECRET not in first.data
    assert first.data != second.data


def test_another_master_key_cannot_decrypt_it_and_both_are_named() -> None:
    with pytest.raises(SealError, match=f"{MASTER.id}.*has {OTHER.id}"):
        unseal(seal(SECRET, "kid", MASTER), "kid", [OTHER])
    with pytest.raises(SealError, match="has none"):
        unseal(seal(SECRET, "kid", MASTER), "kid", [])


def test_a_key_that_was_moved_to_another_id_cannot_be_decrypted() -> None:
    with pytest.raises(SealError, match="cannot be decrypted"):
        unseal(seal(SECRET, "kid", MASTER), "another", [MASTER])


@pytest.mark.parametrize("position", [0, 12, -1])
def test_a_key_that_was_changed_by_one_bit_cannot_be_decrypted(position: int) -> None:
    sealed = seal(SECRET, "kid", MASTER)
    data = bytearray(sealed.data)
    data[position] ^= 1
    with pytest.raises(SealError, match="cannot be decrypted"):
        unseal(Sealed(bytes(data), sealed.sealed_by), "kid", [MASTER])


def test_empty_data_cannot_be_decrypted() -> None:
    with pytest.raises(SealError, match="cannot be decrypted"):
        unseal(Sealed(b"", MASTER.id), "kid", [MASTER])


def test_secrets_are_hidden_in_the_repr() -> None:
    assert repr(MASTER) == "MasterKey()"
    assert "data" not in repr(seal(SECRET, "kid", MASTER))
