"""Authentication of calls of HTTP targets: signatures and tokens."""

import hmac
import json
import re
from asyncio import StreamWriter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.calls import (
    SECRET,
    STARTED_AT,
    TOKEN,
    FixedTokens,
    called,
)
from support.services import (
    Received,
    Service,
    answering,
)

from tenantcron.actor.signatures import InvalidSignatureError, verify_signature
from tenantcron.core.auth import Auth, HmacAuth, TokenAuth
from tenantcron.core.secret_refs import SecretRef
from tenantcron.manifests.policy import load_policy
from tenantcron.targets.responses import LONGEST_RESPONSE
from tenantcron.targets.signals import Fail, Retry


def verified(request: Received, origin: str, secret: str = SECRET) -> bool:
    """Verify a signature as receivers do, from the received request line."""
    try:
        verify_signature(
            secret.encode(),
            method=request.method,
            url=f"{origin}{request.target}",
            headers=request.headers,
            body=request.body,
            now=STARTED_AT,
        )
    except InvalidSignatureError:
        return False
    return True


def verified_v1(request: Received) -> bool:
    """Verify a signature of version 1, as receivers of earlier releases do."""
    head = f"v1:{request.headers['x-tenantcron-timestamp']}:{request.headers['idempotency-key']}:"
    digest = hmac.new(SECRET.encode(), head.encode() + request.body, "sha256").hexdigest()
    return hmac.compare_digest(f"v1={digest}", request.headers["x-tenantcron-signature"])


async def test_the_documented_check_verifies_a_signature(
    target: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets-http.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"<!-- verify -->\n+```python\n(.*?)```", page, re.DOTALL)
    shown: dict[str, Callable[..., bool]] = {}
    exec(source, shown)  # noqa: S102 -- our own page
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    now = datetime.now(UTC)
    for started_at in (now, now - timedelta(minutes=6)):
        await called(target, auth=hmac_by("env", "BILLING_HMAC"), started_at=started_at)

    def is_genuine(request: Received, body: bytes, secret: str = SECRET) -> bool:
        headers = {name.title(): value for name, value in request.headers.items()}
        url = f"{target.url}{request.target}"
        return shown["is_genuine"](request.method, url, headers, body, secret.encode())

    fresh, old = target.received
    assert is_genuine(fresh, fresh.body)
    assert not is_genuine(fresh, fresh.body + b" ")
    assert not is_genuine(fresh, fresh.body, "wrong")
    assert not is_genuine(old, old.body)


def test_the_documented_policy_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets-http.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"<!-- policy -->\n+```toml\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "tenantcron.toml"
    file.write_text(text, encoding="utf-8")
    assert load_policy(file).egress.ports == (443, 8443)


def hmac_by(kind: str, name: str) -> HmacAuth:
    return HmacAuth(SecretRef("env" if kind == "env" else "file", name))


async def test_a_request_is_signed_with_a_secret_from_the_environment(
    target: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    end = await called(target, auth=hmac_by("env", "BILLING_HMAC"))
    assert end.error is None
    assert verified(target.only, target.url)
    assert verified_v1(target.only)
    assert not verified(replace(target.only, body=b"{}"), target.url)
    assert not verified(replace(target.only, method="PUT"), target.url)
    assert not verified(replace(target.only, target="/other"), target.url)
    assert target.only.headers["x-tenantcron-timestamp"] == str(int(STARTED_AT.timestamp()))


async def test_a_request_is_signed_with_a_secret_from_a_file(
    target: Service, tmp_path: Path
) -> None:
    file = tmp_path / "hmac"
    file.write_text(f"{SECRET}\n", encoding="utf-8")
    await called(target, auth=hmac_by("file", str(file)), allowed_secrets=(f"file:{file}",))
    assert verified(target.only, target.url)


@pytest.mark.parametrize(
    "path", ["", "?x=1", "/a/../b", "/a//b/./c", "/%7Erun?q='a'&b=%2f&", "/run?", "/a:b@c;d=e"]
)
async def test_the_signed_url_is_the_requested_one(
    target: Service, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    await called(target, auth=hmac_by("env", "BILLING_HMAC"), path=path)
    assert target.only.target == (path if path.startswith("/") else f"/{path}")
    assert verified(target.only, target.url)


async def test_a_missing_secret_is_named_and_retried(
    target: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hmac"
    allowed = ("env:BILLING_*", f"file:{file}")
    by_env = await called(target, auth=hmac_by("env", "BILLING_HMAC"), allowed_secrets=allowed)
    monkeypatch.setenv("BILLING_HMAC", "")
    empty = await called(target, auth=hmac_by("env", "BILLING_HMAC"), allowed_secrets=allowed)
    by_file = await called(target, auth=hmac_by("file", str(file)), allowed_secrets=allowed)
    for end in (by_env, empty, by_file):
        assert isinstance(end.error, Retry)
    assert "the secret env:BILLING_HMAC is missing or empty" in by_env.reason
    assert by_file.reason == f"the secret file:{file} cannot be read: No such file or directory"
    assert target.received == []


async def test_a_secret_that_the_policy_does_not_allow_is_not_used(
    target: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", SECRET)
    end = await called(target, auth=hmac_by("env", "DATABASE_PASSWORD"))
    assert isinstance(end.error, Fail)
    assert '"env:DATABASE_PASSWORD" to allowed_secrets' in end.reason
    assert target.received == []


@pytest.mark.parametrize("audience", [None, "billing"])
async def test_a_token_is_minted_for_the_origin_or_an_allowed_audience(
    target: Service, audience: str | None
) -> None:
    tokens = FixedTokens()
    allowed = ("billing",)
    await called(target, auth=TokenAuth(audience), tokens=tokens, allowed_audiences=allowed)
    assert target.only.headers["authorization"] == f"Bearer {TOKEN}"
    assert tokens.audiences == [audience or target.url]


async def test_the_origin_of_the_url_is_an_allowed_audience(target: Service) -> None:
    tokens = FixedTokens()
    await called(target, auth=TokenAuth(target.url), tokens=tokens)
    assert tokens.audiences == [target.url]


async def test_a_stored_target_with_another_audience_gets_no_token_and_is_not_called(
    target: Service,
) -> None:
    tokens = FixedTokens()
    auth = TokenAuth("https://payroll.internal")
    end = await called(target, auth=auth, tokens=tokens, allowed_audiences=("billing",))
    assert isinstance(end.error, Fail)
    assert "https://payroll.internal is not an audience that targets at" in end.reason
    assert '"https://payroll.internal" to allowed_audiences' in end.reason
    assert tokens.audiences == []
    assert target.received == []


async def test_without_a_token_the_target_is_not_called(target: Service) -> None:
    none = await called(target, auth=TokenAuth(), tokens=FixedTokens(token=None))
    assert isinstance(none.error, Retry)
    assert none.reason == f"no execution token for {target.url}: the tenant is suspended"
    never = await called(target, auth=TokenAuth())
    assert isinstance(never.error, Fail)
    assert target.received == []


async def echo(request: Received, writer: StreamWriter) -> None:
    """Return the headers of the request, as debugging services do."""
    body = json.dumps(dict(request.headers)).encode()
    await answering(400, body)(request, writer)


CREDENTIALS: dict[str, Auth] = {"token": TokenAuth(), "hmac": hmac_by("env", "BILLING_HMAC")}


@pytest.mark.parametrize("auth", CREDENTIALS.values(), ids=CREDENTIALS.keys())
async def test_echoed_credentials_are_not_stored(
    target: Service, auth: Auth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    end = await called(target, echo, auth=auth, tokens=FixedTokens())
    headers = target.only.headers
    proof = headers.get("authorization") or headers["x-tenantcron-signature"]
    assert "***" in (end.answer.text or "")
    assert proof[-40:] not in (end.answer.text or "")
    assert "reconcile" in (end.answer.text or "")


async def test_a_token_that_crosses_the_end_of_the_stored_part_is_not_stored(
    target: Service,
) -> None:
    body = b"x" * (LONGEST_RESPONSE - 10) + TOKEN.encode() + b"y" * 5000
    end = await called(target, answering(400, body), auth=TokenAuth(), tokens=FixedTokens())
    assert end.answer.text == "x" * (LONGEST_RESPONSE - 10) + "***" + "y" * 7


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ('{"authorization": "Basic dXNlcg=="}', '{"authorization": "***"}'),
        ("api_key=abc&month=12", "api_key=***&month=12"),
        ('{"password":"hunter2","a":1}', '{"password":"***","a":1}'),
        ("got bearer abcdefghij", "got bearer ***"),
        (SECRET, "***"),
        ("all is well", "all is well"),
    ],
)
async def test_text_that_looks_like_credentials_is_not_stored(
    target: Service, body: str, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    end = await called(target, answering(200, body.encode()), auth=CREDENTIALS["hmac"])
    assert end.answer.text == stored


async def test_the_query_is_not_logged(
    target: Service, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("INFO"):
        await called(target, path="/run?token=abc123")
    assert target.only.target == "/run?token=abc123"
    output = capsys.readouterr()
    assert "abc123" not in caplog.text + output.out + output.err
