"""Which secrets a tenant may use."""

import pytest

from tenantcron.core.allowed_names import of_tenant
from tenantcron.core.secret_refs import SecretRef, may_use

ENTRIES = of_tenant(("env:BILLING_HMAC", "env:GRID_*", "file:/run/secrets/{tenant}/*"), "acme")


@pytest.mark.parametrize(
    "ref",
    [
        SecretRef("env", "BILLING_HMAC"),
        SecretRef("env", "GRID_A"),
        SecretRef("file", "/run/secrets/acme/hmac"),
    ],
    ids=str,
)
def test_allowed_secrets(ref: SecretRef) -> None:
    assert may_use(ref, ENTRIES)


@pytest.mark.parametrize(
    "ref",
    [
        SecretRef("env", "BILLING_HMAC_2"),
        SecretRef("env", "GRID_"),
        SecretRef("env", "GRID"),
        SecretRef("env", "GRID_A\n"),
        SecretRef("env", "/run/secrets/acme/hmac"),
        SecretRef("file", "BILLING_HMAC"),
        SecretRef("file", "/run/secrets/umbrella/hmac"),
        SecretRef("file", "/run/secrets/acme/"),
        SecretRef("file", "/run/secrets/acme/.."),
        SecretRef("file", "/run/secrets/acme/.hidden"),
        SecretRef("file", "/run/secrets/acme/a/b"),
        SecretRef("file", "/run/secrets/acme//b"),
        SecretRef("file", "/run/secrets/acme2/hmac"),
    ],
    ids=str,
)
def test_forbidden_secrets(ref: SecretRef) -> None:
    assert not may_use(ref, ENTRIES)


def test_without_entries_no_secret_is_allowed() -> None:
    assert not may_use(SecretRef("env", "BILLING_HMAC"), ())
