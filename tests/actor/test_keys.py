"""Keys: their ids, their formats, and invalid keys."""

import json
from hashlib import sha256

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tenantcron.actor.keys import (
    Algorithm,
    KeyFormatError,
    SigningKey,
    from_jwk,
    from_pem,
    from_secret,
    generate,
    jwks,
)

# The public key of RFC 8037, appendix A.2.
RFC_KEY = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
ANY = pytest.mark.parametrize("algorithm", Algorithm)


def pem(private: object, encryption: KeySerializationEncryption | None = None) -> str:
    write = private.private_bytes  # type: ignore[attr-defined] # every kind has it
    text: bytes = write(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return text.decode()


def public_pem(key: SigningKey) -> str:
    form = PublicFormat.SubjectPublicKeyInfo
    return key.public.key.public_bytes(Encoding.PEM, form).decode()


def test_the_id_of_a_key_is_the_digest_of_its_members() -> None:
    members = json.dumps(RFC_KEY, sort_keys=True, separators=(",", ":")).encode()
    key = from_jwk(RFC_KEY)
    assert key is not None
    assert key.kid == sha256(members).hexdigest()[:32]


@ANY
def test_a_key_can_be_loaded_from_its_secret_and_from_its_public_key(algorithm: Algorithm) -> None:
    key = generate(algorithm)
    assert from_secret(key.secret()).public == key.public
    assert from_jwk(key.public.as_jwk()) == key.public
    assert from_pem(pem(key.private)).signing.public == key.public


@ANY
def test_other_libraries_can_read_a_key_set(algorithm: Algorithm) -> None:
    key = generate(algorithm)
    document = json.loads(json.dumps(jwks([key.public])))
    (read,) = jwt.PyJWKSet.from_dict(document).keys
    token = jwt.encode({"a": 1}, key.private, algorithm.value)
    assert jwt.decode(token, read, algorithms=[algorithm.value]) == {"a": 1}
    assert (read.key_id, read.public_key_use) == (key.public.kid, "sig")


@ANY
def test_a_key_set_and_a_repr_contain_no_private_key(algorithm: Algorithm) -> None:
    key = generate(algorithm)
    keys = jwks([key.public])["keys"]
    assert isinstance(keys, list)
    (published,) = keys
    assert isinstance(published, dict)
    assert set(published) <= {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert "rivate" not in repr(key)


def test_the_first_private_key_signs_and_all_are_published_once() -> None:
    first, second, old = (generate(Algorithm.EDDSA) for _ in range(3))
    text = public_pem(old) + pem(first.private) + pem(second.private) + public_pem(first)
    keys = from_pem(text)
    assert keys.signing.public == first.public
    assert keys.published == (old.public, first.public, second.public)


LOCKED = BestAvailableEncryption(b"secret")
NO_KEYS = {
    "nothing": "",
    "words": "my key",
    "only a public key": public_pem(generate(Algorithm.EDDSA)),
    "RSA": pem(rsa.generate_private_key(65537, 2048)),
    "another curve": pem(ec.generate_private_key(ec.SECP384R1())),
    "with a password": pem(generate(Algorithm.EDDSA).private, LOCKED),
    "cut": pem(generate(Algorithm.ES256).private).replace("M", "", 3),
}


@pytest.mark.parametrize("text", NO_KEYS.values(), ids=NO_KEYS)
def test_an_unusable_key_is_rejected_without_showing_it(text: str) -> None:
    with pytest.raises(KeyFormatError, match="expected Ed25519 or P-256") as caught:
        from_pem(text)
    assert "BEGIN" not in str(caught.value)


NO_JWK: dict[str, dict[str, object]] = {
    "nothing": {},
    "symmetric": {"kty": "oct", "k": "c2VjcmV0"},
    "RSA": {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
    "another curve": {**RFC_KEY, "crv": "X25519"},
    "for another algorithm": {**RFC_KEY, "alg": "HS256"},
    "for encryption": {**RFC_KEY, "use": "enc"},
    "too short": {**RFC_KEY, "x": "AQAB"},
    "not base64": {**RFC_KEY, "x": "é" * 43},
    "a name that is none": {**RFC_KEY, "kid": 5},
    "not on the curve": {"kty": "EC", "crv": "P-256", "x": RFC_KEY["x"], "y": RFC_KEY["x"]},
}


@pytest.mark.parametrize("jwk", NO_JWK.values(), ids=NO_JWK)
def test_an_unsupported_jwk_is_ignored(jwk: dict[str, object]) -> None:
    assert from_jwk(jwk) is None  # type: ignore[arg-type] # as it may come from outside
