"""Keys in the settings: from the environment, or from files that change."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tenantcron.actor.keys import Algorithm, SigningKey, generate
from tenantcron.core.errors import UsageError
from tenantcron.core.settings import Settings
from tenantcron.scheduler.tokens.key_material import KeyMaterial

MASTER, OTHER = os.urandom(32), os.urandom(32)


def pem(key: SigningKey) -> str:
    return key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_without_settings_there_are_no_keys(tmp_path: Path) -> None:
    material = KeyMaterial(Settings(folder=tmp_path))
    assert (material.masters(), material.own()) == ((), None)


@pytest.mark.parametrize("newline", ["\n", "\\n"])
def test_a_private_key_in_a_variable_may_have_escaped_line_breaks(
    tmp_path: Path, newline: str
) -> None:
    key = generate(Algorithm.ES256)
    text = pem(key).replace("\n", newline)
    own = KeyMaterial(Settings(folder=tmp_path, signing_key=text)).own()
    assert own is not None
    assert own.signing.public == key.public


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file, old, new = tmp_path / "key.pem", generate(Algorithm.EDDSA), generate(Algorithm.EDDSA)
    file.write_text(pem(old), encoding="utf-8")
    material = KeyMaterial(Settings(folder=tmp_path, signing_key_file=file))
    first = material.own()
    assert material.own() is first
    file.write_text(pem(new) + pem(old), encoding="utf-8")
    second = material.own()
    assert second is not None
    assert second.signing.public == new.public
    assert second.published == (new.public, old.public)


def test_master_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "master"
    file.write_text(f"{MASTER.hex()}\n{OTHER.hex()}\n", encoding="utf-8")
    masters = KeyMaterial(Settings(folder=tmp_path, master_key_file=file)).masters()
    assert [master.secret for master in masters] == [MASTER, OTHER]


@pytest.mark.parametrize("content", [None, "hunter2", "", "-----BEGIN PRIVATE KEY-----"])
def test_an_error_names_an_invalid_key_file_and_hides_its_content(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    for settings in (
        Settings(folder=tmp_path, master_key_file=file),
        Settings(folder=tmp_path, signing_key_file=file),
    ):
        material = KeyMaterial(settings)
        with pytest.raises(UsageError, match=str(file)) as caught:
            material.masters() or material.own()
        assert "hunter2" not in str(caught.value)
