"""Private keys at rest."""

import os

import pytest

from tenantcron.actor.sealing import Sealed, SealError, seal, unseal
from tenantcron.core.master_keys import MasterKey

MASTER, OTHER = MasterKey(os.urandom(32)), MasterKey(os.urandom(32))
SECRET = b"a private key"


def test_what_was_sealed_opens_with_the_same_master_key_among_others() -> None:
    sealed = seal(SECRET, "kid", MASTER)
    assert sealed.sealed_by == MASTER.id
    assert unseal(sealed, "kid", [OTHER, MASTER]) == SECRET


def test_the_secret_is_not_in_what_was_sealed_and_no_two_seals_are_alike() -> None:
    one, two = seal(SECRET, "kid", MASTER), seal(SECRET, "kid", MASTER)
    assert SECRET not in one.data
    assert one.data != two.data


def test_another_master_key_does_not_open_it_and_both_are_named() -> None:
    with pytest.raises(SealError, match=f"{MASTER.id}.*has {OTHER.id}"):
        unseal(seal(SECRET, "kid", MASTER), "kid", [OTHER])
    with pytest.raises(SealError, match="has none"):
        unseal(seal(SECRET, "kid", MASTER), "kid", [])


def test_a_key_that_was_moved_to_another_name_does_not_open() -> None:
    with pytest.raises(SealError, match="cannot be decrypted"):
        unseal(seal(SECRET, "kid", MASTER), "another", [MASTER])


@pytest.mark.parametrize("position", [0, 12, -1])
def test_a_key_that_was_changed_by_one_bit_does_not_open(position: int) -> None:
    sealed = seal(SECRET, "kid", MASTER)
    data = bytearray(sealed.data)
    data[position] ^= 1
    with pytest.raises(SealError, match="cannot be decrypted"):
        unseal(Sealed(bytes(data), sealed.sealed_by), "kid", [MASTER])


def test_nothing_does_not_open() -> None:
    with pytest.raises(SealError, match="cannot be decrypted"):
        unseal(Sealed(b"", MASTER.id), "kid", [MASTER])


def test_secrets_are_in_no_repr() -> None:
    assert repr(MASTER) == "MasterKey()"
    assert "data" not in repr(seal(SECRET, "kid", MASTER))
