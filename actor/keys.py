"""Keys that sign execution tokens, and the public keys that verify them.

Each of the two kinds of keys works with exactly one algorithm, so the header of a token never
decides how a key is used. The id of a key is a digest of the public key, so two keys never share
an id.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Final, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
    load_pem_public_key,
)

from tenantcron.core.errors import TenantcronError
from tenantcron.core.values import JsonObject, JsonValue

Private: TypeAlias = Ed25519PrivateKey | ec.EllipticCurvePrivateKey
Public: TypeAlias = Ed25519PublicKey | ec.EllipticCurvePublicKey

_CURVE: Final = ec.SECP256R1
_COORDINATE: Final = 32
_PEM: Final = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----.*?-----END (?P=kind)-----", re.DOTALL
)
_EXPECTED: Final = "Ed25519 or P-256 keys in PEM, private ones without a password"


class Algorithm(StrEnum):
    """The supported signature algorithms; no other is accepted."""

    EDDSA = "EdDSA"
    ES256 = "ES256"


class KeyFormatError(TenantcronError):
    """The text contains no usable key; it is never shown."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies tokens."""

    kid: str
    algorithm: Algorithm
    key: Public

    def as_jwk(self) -> JsonObject:
        """Return it as a JSON Web Key."""
        return {**_members(self.key), "kid": self.kid, "alg": self.algorithm.value, "use": "sig"}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs tokens."""

    public: PublicKey
    private: Private = field(repr=False)

    def secret(self) -> bytes:
        """Return the private key as bytes; use them only for sealing."""
        return self.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True, slots=True)
class PemKeys:
    """The keys of a PEM text: the first private key signs, all public keys are published."""

    signing: SigningKey
    published: tuple[PublicKey, ...]


def generate(algorithm: Algorithm) -> SigningKey:
    """Generate a key."""
    if algorithm is Algorithm.EDDSA:
        return _signing(Ed25519PrivateKey.generate())
    return _signing(ec.generate_private_key(_CURVE()))


def from_secret(secret: bytes) -> SigningKey:
    """Load a key from the bytes of `SigningKey.secret`."""
    return _signing(_of_known_kind(load_der_private_key(secret, None)))


def from_pem(text: str) -> PemKeys:
    """Load one or more private keys, and public keys to publish with them."""
    blocks = [match[0].encode() for match in _PEM.finditer(text)]
    try:
        keys = [_read_block(block) for block in blocks]
    # The library raises any of these for invalid input and does not document which.
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFormatError(f"it cannot be read: expected {_EXPECTED}") from None
    signing = [key for key in keys if isinstance(key, SigningKey)]
    if not signing:
        raise KeyFormatError(f"there is no private key in it: expected {_EXPECTED}")
    published = (key.public if isinstance(key, SigningKey) else key for key in keys)
    return PemKeys(signing[0], tuple({key.kid: key for key in published}.values()))


def jwks(keys: Iterable[PublicKey]) -> JsonObject:
    """Return public keys as a JSON Web Key Set."""
    return {"keys": [key.as_jwk() for key in keys]}


def from_jwk(jwk: Mapping[str, JsonValue]) -> PublicKey | None:
    """Load the public part of a JSON Web Key; None if its kind is not supported."""
    key = _from_members(jwk)
    if key is None:
        return None
    algorithm = _algorithm(key)
    kid = jwk.get("kid") or thumbprint(key)
    if not isinstance(kid, str) or jwk.get("alg", algorithm.value) != algorithm.value:
        return None
    return PublicKey(kid, algorithm, key) if jwk.get("use", "sig") == "sig" else None


def thumbprint(key: Public) -> str:
    """Return the id of a key: the first half of the thumbprint that RFC 7638 defines.

    In hexadecimal, unlike the RFC: an id that begins with a dash cannot be a command argument.
    """
    members = json.dumps(_members(key), sort_keys=True, separators=(",", ":"))
    return sha256(members.encode()).hexdigest()[:32]


def _signing(private: Private) -> SigningKey:
    return SigningKey(_public(private.public_key()), private)


def _public(key: Public) -> PublicKey:
    return PublicKey(thumbprint(key), _algorithm(key), key)


def _algorithm(key: Public) -> Algorithm:
    return Algorithm.EDDSA if isinstance(key, Ed25519PublicKey) else Algorithm.ES256


def _read_block(block: bytes) -> SigningKey | PublicKey:
    if b"PRIVATE KEY" in block.splitlines()[0]:
        return _signing(_of_known_kind(load_pem_private_key(block, None)))
    key = load_pem_public_key(block)
    if not isinstance(key, Ed25519PublicKey) and not _is_on_curve(key):
        raise ValueError("another kind of key")
    return _public(key)  # type: ignore[arg-type] # one of the two kinds, as just checked


def _of_known_kind(key: object) -> Private:
    if isinstance(key, Ed25519PrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, _CURVE):
        return key
    raise ValueError("another kind of key")


def _is_on_curve(key: object) -> bool:
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVE)


def _members(key: Public) -> JsonObject:
    if isinstance(key, Ed25519PublicKey):
        x = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
        return {"crv": "Ed25519", "kty": "OKP", "x": _encoded(x)}
    numbers = key.public_numbers()
    x, y = (number.to_bytes(_COORDINATE) for number in (numbers.x, numbers.y))
    return {"crv": "P-256", "kty": "EC", "x": _encoded(x), "y": _encoded(y)}


def _from_members(jwk: Mapping[str, JsonValue]) -> Public | None:
    """Read only the public members; private ones are ignored."""
    kind = (jwk.get("kty"), jwk.get("crv"))
    try:
        if kind == ("OKP", "Ed25519"):
            return Ed25519PublicKey.from_public_bytes(_decoded(jwk.get("x")))
        if kind == ("EC", "P-256"):
            x, y = (int.from_bytes(_decoded(jwk.get(name))) for name in ("x", "y"))
            return ec.EllipticCurvePublicNumbers(x, y, _CURVE()).public_key()
    except ValueError:  # not a point of the curve, or not base64
        return None
    return None


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: JsonValue) -> bytes:
    if not isinstance(text, str) or not text.isascii():
        raise ValueError("not text")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(data) != _COORDINATE:
        raise ValueError("wrong length")
    return data
