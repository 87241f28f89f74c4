"""Parsing of master keys."""

from base64 import b64encode, urlsafe_b64encode

import pytest

from tenantcron.core.master_keys import MasterKey, MasterKeyError, parse_master_keys

# The same in every process that collects these tests.
SECRET, OTHER = bytes(range(224, 256)), bytes(range(32))


@pytest.mark.parametrize(
    "text",
    [
        b64encode(SECRET).decode(),
        urlsafe_b64encode(SECRET).decode(),
        urlsafe_b64encode(SECRET).decode().rstrip("="),
        SECRET.hex(),
        SECRET.hex().upper(),
        f"  {SECRET.hex()}\n",
    ],
)
def test_every_encoding_of_a_key_is_accepted(text: str) -> None:
    assert parse_master_keys(text) == (MasterKey(SECRET),)


@pytest.mark.parametrize("separator", [",", "\n", " , "])
def test_several_keys_keep_their_order(separator: str) -> None:
    text = separator.join((SECRET.hex(), b64encode(OTHER).decode()))
    assert parse_master_keys(text) == (MasterKey(SECRET), MasterKey(OTHER))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ,\n",
        "changeme",
        SECRET.hex()[:-2],
        b64encode(SECRET[:16]).decode(),
        "é" * 44,
        "00" * 32,
    ],
)
def test_an_invalid_key_is_rejected_with_the_command_that_makes_one(text: str) -> None:
    with pytest.raises(MasterKeyError, match="openssl rand -base64 32") as caught:
        parse_master_keys(text)
    assert not text.strip(" ,\n") or text not in str(caught.value)


def test_the_id_of_a_key_is_stable_and_unique() -> None:
    assert MasterKey(SECRET).id == MasterKey(SECRET).id != MasterKey(OTHER).id
    assert SECRET.hex()[:8] not in MasterKey(SECRET).id
