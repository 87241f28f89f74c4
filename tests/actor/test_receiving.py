"""Authentication of callers in requests of a web framework."""

from dataclasses import replace

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from support.tokens import VERIFIER, payload, signed

from tenantcron.actor.key_sets import FetchedKeys
from tenantcron.actor.receiving import ProofOfExecution

PROVE = ProofOfExecution(VERIFIER)


def request(*authorization: str, **path: str) -> Request:
    headers = [(b"authorization", text.encode()) for text in authorization]
    return Request({"type": "http", "headers": headers, "path_params": path})


def status(prove: ProofOfExecution, given: Request) -> int:
    with pytest.raises(HTTPException) as caught:
        prove(given)
    return caught.value.status_code


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_bearer_token_authenticates_the_caller(scheme: str) -> None:
    proof = PROVE(request(f"{scheme} {signed(payload())}"))
    assert (proof.tenant, proof.actor.authenticated) == ("acme", True)


def test_the_tenant_of_the_path_is_compared_whatever_its_parameter() -> None:
    header = f"Bearer {signed(payload())}"
    assert PROVE(request(header, tenant="acme")).tenant == "acme"
    assert status(PROVE, request(header, tenant="globex")) == 403
    assert status(ProofOfExecution(VERIFIER, tenant="org"), request(header, org="globex")) == 403


@pytest.mark.parametrize(
    "authorization",
    [
        [],
        [""],
        ["Bearer"],
        ["Bearer "],
        ["Basic YTpi"],
        [signed(payload())],
        [f"Bearer {signed(payload())}", f"Bearer {signed(payload())}"],
    ],
    ids=["none", "empty", "no token", "blank", "another scheme", "no scheme", "two"],
)
def test_a_request_without_exactly_one_bearer_token_is_rejected(authorization: list[str]) -> None:
    assert status(PROVE, request(*authorization)) == 401


def test_without_keys_the_status_is_503_not_401() -> None:
    unreachable = replace(VERIFIER, keys=FetchedKeys("http://127.0.0.1:9/jwks.json"))
    assert status(ProofOfExecution(unreachable), request(f"Bearer {signed(payload())}")) == 503


def test_a_missing_role_is_forbidden() -> None:
    billing = ProofOfExecution(replace(VERIFIER, role="service:billing"))
    assert status(billing, request(f"Bearer {signed(payload())}")) == 403
