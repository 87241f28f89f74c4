"""Tokens of an OIDC issuer: validation, claims and keys."""

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from support.fleet import Shell, query
from support.serving import Api, api_on, minute

from tenantcron.store.connection.engine import Database

ISSUER, AUDIENCE = "https://login.example", "tenantcron"


class Keys:
    """An issuer: a key pair for each id, and the set of public keys as it publishes them."""

    def __init__(self) -> None:
        self.private = {"one": ec.generate_private_key(ec.SECP256R1())}
        self.asked = 0
        self.away = False

    def published(self) -> bytes:
        algorithm = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
        keys = [
            json.loads(algorithm.to_jwk(key.public_key())) | {"kid": name, "alg": "ES256"}
            for name, key in self.private.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, key_id: str = "one", **changes: Any) -> str:
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "ada@example.com",
            "exp": datetime.now(UTC) + timedelta(minutes=5),
            "tenantcron_role": "admin",
            "tenantcron_tenant": "*",
        } | changes
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, self.private[key_id], "ES256", headers={"kid": key_id})


@contextmanager
def published(keys: Keys) -> Iterator[str]:
    """Serve the key set on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.asked += 1
            self.send_response(503 if keys.away else 200)
            self.end_headers()
            self.wfile.write(keys.published())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jwks.json"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
async def api(database: Database, tmp_path: Path, keys: Keys) -> AsyncIterator[Api]:
    with published(keys) as url:
        settings: dict[str, Any] = {
            "oidc_issuer": ISSUER,
            "oidc_audience": AUDIENCE,
            "oidc_jwks_url": url,
        }
        async with api_on(database, tmp_path, **settings) as running:
            await running.tenants("acme", "beta")
            yield running


async def status(api: Api, token: str, path: str = "/v1/tenants") -> int:
    async with api.with_token(token) as client:
        return (await client.get(path)).status_code


async def test_a_token_of_the_issuer_authenticates_its_actor(
    api: Api, keys: Keys, database_url: str
) -> None:
    async with api.with_token(keys.token()) as client:
        done = await client.post("/v1/tenants/acme:suspend", json={"reason": "unpaid"})

    assert done.status_code == 200
    (row,) = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY id DESC LIMIT 1")
    assert (row["changed_by"], row["actor_type"], row["authenticated"]) == (
        "oidc:ada@example.com",
        "human",
        True,
    )


async def test_claims_determine_the_role_and_the_tenant(api: Api, keys: Keys) -> None:
    bound = keys.token(tenantcron_role="viewer", tenantcron_tenant="acme")
    assert await status(api, bound, "/v1/tenants/acme") == 200
    assert await status(api, bound, "/v1/tenants/beta") == 404
    async with api.with_token(bound) as client:
        refused = await client.post("/v1/tenants/acme:suspend", json={"reason": "x"})
    assert refused.status_code == 403


def unsigned(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "kid": "one"}, claims)
    encoded = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{'.'.join(encoded)}."


async def test_a_token_with_any_defect_is_rejected(api: Api, keys: Keys) -> None:
    public = (
        keys.private["one"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    stranger = Keys()
    past = datetime.now(UTC) - timedelta(minutes=5)
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": 9_999_999_999}
    good = keys.token()
    refused = {
        "expired": keys.token(exp=past),
        "not valid yet": keys.token(nbf=datetime.now(UTC) + timedelta(minutes=5)),
        "another issuer": keys.token(iss="https://evil.example"),
        "another audience": keys.token(aud="billing"),
        "no audience": keys.token(aud=None),
        "no subject": keys.token(sub=None),
        "an empty subject": keys.token(sub=""),
        "a blank subject": keys.token(sub="  "),
        "no end": keys.token(exp=None),
        "an unknown role": keys.token(tenantcron_role="root"),
        "a tenant that is none": keys.token(tenantcron_tenant="**"),
        "a tenant that is not text": keys.token(tenantcron_tenant=["acme"]),
        "a tenant that is empty": keys.token(tenantcron_tenant=""),
        "another key of the same name": stranger.token(),
        "not signed": unsigned(claims | {"tenantcron_role": "admin"}),
        "signed with the public key as a secret": _signed_with(public, claims),
        "cut": good[:-4],
        "changed": good[:20] + ("A" if good[20] != "A" else "B") + good[21:],
    }
    for what, token in refused.items():
        assert await status(api, token) == 401, what
    assert await status(api, good) == 200


def _signed_with(secret: bytes, claims: dict[str, Any]) -> str:
    head, body, _ = unsigned(claims | {"tenantcron_role": "admin"}).split(".")
    head = urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "one"}).encode()).decode()
    message = f"{head.rstrip('=')}.{body}"
    signature = hmac.new(secret, message.encode(), hashlib.sha256).digest()
    return f"{message}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


MISSING = {
    "no tenant": ({"tenantcron_tenant": None}, "tenantcron_tenant"),
    "no tenant, and not an admin": (
        {"tenantcron_tenant": None, "tenantcron_role": "viewer"},
        "tenantcron_tenant",
    ),
    "no role": ({"tenantcron_role": None}, "tenantcron_role"),
    "neither": ({"tenantcron_role": None, "tenantcron_tenant": None}, "tenantcron_role"),
}


@pytest.mark.parametrize(("claims", "missing"), MISSING.values(), ids=MISSING)
async def test_a_token_without_a_role_or_a_tenant_gives_no_access_and_names_the_claim(
    api: Api, keys: Keys, claims: dict[str, Any], missing: str
) -> None:
    async with api.with_token(keys.token(**claims)) as client:
        refused = await client.get("/v1/tenants")
    assert refused.status_code == 403
    problem = refused.json()
    assert problem["code"] == "TC702"
    assert f"the token has no claim `{missing}`" in problem["detail"]


@pytest.mark.parametrize("claim", [None, "acme", "*"])
async def test_the_dashboard_signs_in_by_the_same_claims(
    api: Api, keys: Keys, claim: str | None
) -> None:
    async with api.with_token(None) as client:
        page = await client.get("/ui/sign-in")
        csrf = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
        assert csrf is not None
        form = {"token": keys.token(tenantcron_tenant=claim), "csrf": csrf[1], "next": "/ui"}
        answer = await client.post("/ui/sign-in", data=form)
    assert answer.status_code == (403 if claim is None else 303)
    assert ("has no claim <code>tenantcron_tenant</code>" in answer.text) == (claim is None)


async def test_invented_key_ids_do_not_cause_requests_to_the_issuer(api: Api, keys: Keys) -> None:
    assert await status(api, keys.token()) == 200
    asked = keys.asked
    for number in range(5):
        made_up = jwt.encode({"sub": "x"}, keys.private["one"], "ES256", {"kid": f"k{number}"})
        assert await status(api, made_up) == 401
    assert keys.asked <= asked + 1


async def test_an_unreachable_issuer_is_503_until_its_keys_are_cached(api: Api, keys: Keys) -> None:
    keys.away = True
    assert await status(api, keys.token()) == 503
    keys.away = False
    service = api.service.callers.issuer
    assert service is not None
    service.keys._tried_at = float("-inf")
    assert await status(api, keys.token()) == 200
    keys.away = True
    assert await status(api, keys.token()) == 200


async def test_cached_keys_of_an_unreachable_issuer_are_valid_for_an_hour(
    api: Api, keys: Keys
) -> None:
    assert await status(api, keys.token()) == 200
    service = api.service.callers.issuer
    assert service is not None
    keys.away = True
    service.keys._fetched_at -= 3_590
    assert await status(api, keys.token()) == 200
    service.keys._fetched_at -= 20
    # Even in the seconds in which the issuer is not queried again.
    assert [await status(api, keys.token()) for _ in range(3)] == [503] * 3


@pytest.mark.parametrize("nonsense", [b"", b"[]", b'{"keys": 5}', b'{"keys": [5]}', b"\xff"])
async def test_an_invalid_key_set_counts_as_an_unreachable_issuer(
    api: Api, keys: Keys, nonsense: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "published", lambda: nonsense)
    assert await status(api, keys.token()) == 503


def _public(private: rsa.RSAPrivateKey, **more: str) -> dict[str, Any]:
    jwk = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).to_jwk(
        private.public_key()
    )
    return {**json.loads(jwk), "kid": "rsa", "alg": "RS256", **more}


RSA = {"strong": (2048, "sig", 200), "short": (1024, "sig", 401), "other use": (2048, "enc", 401)}


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits long")
@pytest.mark.parametrize("case", RSA.values(), ids=RSA)
async def test_an_rsa_key_is_accepted_if_it_is_strong_and_for_signatures(
    api: Api, keys: Keys, case: tuple[int, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bits, use, expected = case
    private = rsa.generate_private_key(65537, bits)
    usable = json.loads(keys.published())["keys"]
    published = json.dumps({"keys": [*usable, _public(private, use=use)]}).encode()
    monkeypatch.setattr(keys, "published", lambda: published)
    claims = jwt.decode(keys.token(), options={"verify_signature": False})
    token = jwt.encode(claims, private, "RS256", headers={"kid": "rsa"})

    assert await status(api, token) == expected
    assert await status(api, keys.token()) == 200


async def test_keys_are_fetched_without_a_proxy_of_the_environment(
    api: Api, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with api.with_token(keys.token()) as client:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "")
        answer = await client.get("/v1/tenants")

    assert answer.status_code == 200


async def test_requests_are_counted_by_subject(
    database: Database, tmp_path: Path, keys: Keys
) -> None:
    with published(keys) as url:
        settings: dict[str, Any] = {
            "oidc_issuer": ISSUER,
            "oidc_audience": AUDIENCE,
            "oidc_jwks_url": url,
        }
        async with api_on(database, tmp_path, **settings | {"api_rate_limit": 3}) as api:
            # If a minute ends in between, start again with another subject.
            began = None
            while began is None or began != await minute(database):
                began = await minute(database)
                codes = [await status(api, keys.token(sub=f"ada at {began}")) for _ in range(9)]
            assert codes[-1] == 429
            assert await status(api, keys.token(sub="grace")) == 200


def test_the_issuer_settings_must_be_complete_and_use_https(
    tmp_path: Path, database_url: str
) -> None:
    shell = Shell(tmp_path, database_url)
    half = shell("serve", TENANTCRON_OIDC_ISSUER=ISSUER)
    unsafe = shell("serve", TENANTCRON_OIDC_JWKS_URL="http://login.example/keys")

    assert (half.code, "or none" in half.err) == (2, True)
    assert (unsafe.code, "https://" in unsafe.err) == (2, True)
