"""Keys that sign execution tokens, and their public halves as verifiers read them.

There are two kinds, and a key of one kind works with one algorithm only: what a token says about
its algorithm never decides how a key is used. A key is named by a digest of its public half, so
that a name cannot stand for two keys.
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
    """What tokens are signed with; nothing else is ever accepted."""

    EDDSA = "EdDSA"
    ES256 = "ES256"


class KeyFormatError(TenantcronError):
    """The text holds no key that tokens can be signed or verified with; it is never shown."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What a token is verified with."""

    kid: str
    algorithm: Algorithm
    key: Public

    def as_jwk(self) -> JsonObject:
        """Return it as a JSON Web Key."""
        return {**_members(self.key), "kid": self.kid, "alg": self.algorithm.value, "use": "sig"}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """What a token is signed with."""

    public: PublicKey
    private: Private = field(repr=False)

    def secret(self) -> bytes:
        """Return the private key as bytes, which are to be sealed and nothing else."""
        return self.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True, slots=True)
class PemKeys:
    """The keys of one text: the first private one signs, verifiers may know all of them."""

    signing: SigningKey
    published: tuple[PublicKey, ...]


def generate(algorithm: Algorithm) -> SigningKey:
    """Make a new key."""
    if algorithm is Algorithm.EDDSA:
        return _signing(Ed25519PrivateKey.generate())
    return _signing(ec.generate_private_key(_CURVE()))


def from_secret(secret: bytes) -> SigningKey:
    """Read what `SigningKey.secret` gave."""
    return _signing(_of_known_kind(load_der_private_key(secret, None)))


def from_pem(text: str) -> PemKeys:
    """Read one private key or more, and public ones that are to be published beside them."""
    blocks = [match[0].encode() for match in _PEM.finditer(text)]
    try:
        keys = [_read_block(block) for block in blocks]
    # Everything that the library has for what it cannot read: it does not say what to expect.
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFormatError(f"it cannot be read: expected {_EXPECTED}") from None
    signing = [key for key in keys if isinstance(key, SigningKey)]
    if not signing:
        raise KeyFormatError(f"there is no private key in it: expected {_EXPECTED}")
    published = (key.public if isinstance(key, SigningKey) else key for key in keys)
    return PemKeys(signing[0], tuple({key.kid: key for key in published}.values()))


def jwks(keys: Iterable[PublicKey]) -> JsonObject:
    """Return public keys as a JSON Web Key Set, which verifiers fetch."""
    return {"keys": [key.as_jwk() for key in keys]}


def from_jwk(jwk: Mapping[str, JsonValue]) -> PublicKey | None:
    """Read the public half of a JSON Web Key; None if it is not one that tokens are signed with."""
    key = _from_members(jwk)
    if key is None:
        return None
    algorithm = _algorithm(key)
    kid = jwk.get("kid") or thumbprint(key)
    if not isinstance(kid, str) or jwk.get("alg", algorithm.value) != algorithm.value:
        return None
    return PublicKey(kid, algorithm, key) if jwk.get("use", "sig") == "sig" else None


def thumbprint(key: Public) -> str:
    """Return the name of a key: the first half of the digest that RFC 7638 defines.

    In hexadecimal, unlike there: what begins with a dash cannot be typed as an argument.
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
    return _public(key)  # type: ignore[arg-type] # one of the two kinds, as was just looked at


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
    """Look at the public members only: a private one has no place in what verifiers read."""
    kind = (jwk.get("kty"), jwk.get("crv"))
    try:
        if kind == ("OKP", "Ed25519"):
            return Ed25519PublicKey.from_public_bytes(_decoded(jwk.get("x")))
        if kind == ("EC", "P-256"):
            x, y = (int.from_bytes(_decoded(jwk.get(name))) for name in ("x", "y"))
            return ec.EllipticCurvePublicNumbers(x, y, _CURVE()).public_key()
    except ValueError:  # not a point of the curve, or no base64
        return None
    return None


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: JsonValue) -> bytes:
    if not isinstance(text, str) or not text.isascii():
        raise ValueError("no text")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(data) != _COORDINATE:
        raise ValueError("another length")
    return data
