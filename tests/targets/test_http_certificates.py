"""Client certificates of HTTP targets, with real TLS handshakes."""

import asyncio
import ssl
from asyncio import StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from support.calls import NAME, Ended, a_request, calling, ended, resolving
from support.services import LOOPBACK, Received, Service, answering, service

from tenantcron.core.auth import MtlsAuth
from tenantcron.core.secret_refs import SecretRef
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.signals import Fail, Retry


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    """The authority of the service and of its clients."""
    return trustme.CA()


@dataclass(slots=True)
class Guarded:
    """A service that requires client certificates and responds with the name in them."""

    ca: trustme.CA
    target: Service
    client: HttpClient
    folder: Path

    def issue(self, name: str, key_of: str | None = None) -> None:
        """Write the certificate of a client, or one with the key of another."""
        issued = self.ca.issue_cert(name)
        other = self.ca.issue_cert(key_of) if key_of else issued
        for file, blob in (
            ("tls.crt", issued.cert_chain_pems[0]),
            ("tls.key", other.private_key_pem),
        ):
            # As volumes of secrets do: a new file, which is renamed.
            blob.write_to_path(self.folder / "new")
            (self.folder / "new").rename(self.folder / file)

    async def call(self, scheme: str = "https", **fields: object) -> Ended:
        """Call the service."""
        auth = MtlsAuth(
            SecretRef("file", str(self.folder / "tls.crt")),
            SecretRef("file", str(self.folder / "tls.key")),
        )
        values: dict[str, object] = {
            "auth": auth,
            "allowed_secrets": (f"file:{self.folder}/*",),
        }
        url = f"{scheme}://{NAME}:{self.target.port}/run"
        return await ended(self.client, a_request(url, **{**values, **fields}))


async def whoami(request: Received, writer: StreamWriter) -> None:
    """Respond with the name in the certificate of the client."""
    certificate = writer.get_extra_info("peercert")
    names = [name for _, name in certificate["subjectAltName"]]
    await answering(200, ",".join(names).encode())(request, writer)


@asynccontextmanager
async def guarding(ca: trustme.CA, folder: Path) -> AsyncIterator[Guarded]:
    """Run a service that requires certificates."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(NAME).configure_cert(tls)
    ca.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    ca.cert_pem.write_to_path(folder / "ca.pem")
    async with service(whoami, tls) as target:
        options = {"resolve": resolving([LOOPBACK]), "ca_file": folder / "ca.pem"}
        async with calling(target.port, **options) as client:
            yield Guarded(ca, target, client, folder)


@pytest.fixture
async def guarded(ca: trustme.CA, tmp_path: Path) -> AsyncIterator[Guarded]:
    """A service that requires certificates, and a client with one."""
    async with guarding(ca, tmp_path) as made:
        made.issue("acme.test")
        yield made


async def test_a_client_certificate_is_presented(guarded: Guarded) -> None:
    end = await guarded.call()
    assert end.error is None
    assert end.answer.text == "acme.test"


async def test_a_certificate_is_read_again_when_it_is_replaced(guarded: Guarded) -> None:
    first, second = await guarded.call(), await guarded.call()
    guarded.issue("renewed.test")
    third = await guarded.call()
    assert [end.answer.text for end in (first, second, third)] == [
        "acme.test",
        "acme.test",
        "renewed.test",
    ]
    numbers = [request.connection for request in guarded.target.received]
    assert numbers == [1, 1, 2]


async def test_requests_at_the_same_time_share_one_client(guarded: Guarded) -> None:
    ends = await asyncio.gather(*(guarded.call() for _ in range(5)))
    assert [end.error for end in ends] == [None] * 5


async def test_a_connection_with_a_certificate_is_not_used_by_others(guarded: Guarded) -> None:
    assert (await guarded.call()).error is None
    plain = await guarded.call(auth=None)
    assert isinstance(plain.error, Retry)
    assert len(guarded.target.received) == 1


async def test_a_certificate_without_its_key_is_retried(guarded: Guarded) -> None:
    guarded.issue("acme.test", key_of="other.test")
    end = await guarded.call()
    assert isinstance(end.error, Retry)
    assert "KEY_VALUES_MISMATCH" in end.reason
    guarded.issue("acme.test")
    assert (await guarded.call()).error is None


def encrypted(key: bytes) -> bytes:
    """Protect a key with a passphrase."""
    loaded = load_pem_private_key(key, None)
    return loaded.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"horse")
    )


@pytest.mark.parametrize(
    "damage",
    [lambda _: None, lambda _: b"", lambda _: b"no PEM", encrypted],
    ids=["missing", "empty", "no key", "encrypted"],
)
async def test_an_unusable_key_is_retried_with_its_path(
    guarded: Guarded, damage: Callable[[bytes], bytes | None]
) -> None:
    key = guarded.folder / "tls.key"
    content = damage(key.read_bytes())
    key.unlink()
    if content is not None:
        key.write_bytes(content)
    end = await guarded.call()
    assert isinstance(end.error, Retry)
    assert str(key) in end.reason
    assert guarded.target.received == []


async def test_a_certificate_that_the_policy_does_not_allow_is_not_used(guarded: Guarded) -> None:
    end = await guarded.call(allowed_secrets=(f"file:{guarded.folder}/tls.crt",))
    assert isinstance(end.error, Fail)
    assert f'"file:{guarded.folder}/tls.key" to allowed_secrets' in end.reason


async def test_a_certificate_is_never_promised_without_tls(guarded: Guarded) -> None:
    end = await guarded.call(scheme="http")
    assert isinstance(end.error, Fail)
    assert "use an https URL" in end.reason
