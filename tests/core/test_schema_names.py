"""Schema names and the pattern that builds them."""

from pathlib import Path

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import parse_schema_pattern, schema_name
from tenantcron.core.settings import load_settings


@pytest.mark.parametrize(
    "name", ["org_acme", "Org-Acme", "org acme", 'say "acme"', "100%", "größe", "o'neil", "a" * 63]
)
def test_any_printable_name_is_valid(name: str) -> None:
    assert schema_name(name) == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "printable characters"),
        (" acme", "neither begins nor ends with a space"),
        ("ac\nme", "printable characters"),
        ("ac\0me", "printable characters"),
        ("a" * 64, "at most 63 bytes"),
        ("é" * 32, "at most 63 bytes"),
        ("pg_toast", "reserved"),
        ("information_schema", "reserved"),
        ("public", "reserved"),
        ("tenantcron", "reserved"),
    ],
)
def test_other_names_are_rejected_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        schema_name(name)


def test_the_pattern_gives_the_schema_of_a_tenant() -> None:
    pattern = parse_schema_pattern("Org-{tenant}_v2")

    assert pattern.name_for(TenantId("acme")) == "Org-acme_v2"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("org", "exactly once"),
        ("{tenant}_{tenant}", "exactly once"),
        ("org_{tenan}", "exactly once"),
        ("org_{tenant}_{region}", "no other braces"),
        ("organisation_of_{tenant}", "room for 15 bytes"),
        ("pg_{tenant}", "reserved"),
        ("\torg_{tenant}", "printable characters"),
    ],
)
def test_an_invalid_pattern_is_rejected(pattern: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_schema_pattern(pattern)


def test_a_pattern_never_gives_a_reserved_name() -> None:
    pattern = parse_schema_pattern("p{tenant}")

    with pytest.raises(UsageError, match="reserved"):
        pattern.name_for(TenantId("g_catalog"))
    with pytest.raises(UsageError, match="reserved"):
        pattern.name_for(TenantId("ublic"))


def test_an_invalid_pattern_in_the_settings_is_reported_with_its_place() -> None:
    with pytest.raises(UsageError, match=r"TENANTCRON_SCHEMA_PATTERN: 'org' must have"):
        load_settings({"TENANTCRON_SCHEMA_PATTERN": "org"}, Path("/nowhere"))
