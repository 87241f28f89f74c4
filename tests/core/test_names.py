"""Names that become identifiers, headers and parts of URLs."""

import pytest

from tenantcron.core.names import is_name, is_reserved, is_tenant_id


@pytest.mark.parametrize("text", ["a", "acme", "a-b_c-9", "a" * 48])
def test_valid_for_tenants_and_names(text: str) -> None:
    assert is_tenant_id(text)
    assert is_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "9a",
        "-a",
        "_a",
        "a b",
        "a.b",
        "a/b",
        "a'b",
        'a"b',
        "a\n",
        "\na",
        "ä",
        "a\u0430",
        "a\u0663",
        "\x00",
    ],
)
def test_valid_for_neither(text: str) -> None:
    assert not is_tenant_id(text)
    assert not is_name(text)


def test_tenant_ids_have_at_most_48_characters_and_names_128() -> None:
    assert is_tenant_id("a" * 48)
    assert not is_tenant_id("a" * 49)
    assert is_name("a" * 128)
    assert not is_name("a" * 129)


@pytest.mark.parametrize(
    "text", ["public", "information_schema", "tenantcron", "pg_", "pg_catalog"]
)
def test_system_schemas_are_reserved(text: str) -> None:
    assert is_reserved(text)


@pytest.mark.parametrize("text", ["acme", "pg", "pgx", "publicity", "tenantcron2", "a-pg_x"])
def test_other_names_are_not_reserved(text: str) -> None:
    assert not is_reserved(text)
