"""Names of tenant schemas: validated on input, quoted wherever they are used.

Postgres accepts nearly any quoted text as a schema name, and platforms use that. So every printable
name is valid, except names that belong to Postgres, to tenantcron or to all tenants.
"""

from dataclasses import dataclass
from typing import Final, NewType

from tenantcron.core.errors import UsageError
from tenantcron.core.names import LONGEST_TENANT, RESERVED_PREFIX, RESERVED_TENANTS, TenantId

SchemaName = NewType("SchemaName", str)

# Postgres truncates longer identifiers, so two long names could mean the same schema.
LONGEST_NAME: Final = 63
PLACEHOLDER: Final = "{tenant}"


def schema_name(text: str) -> SchemaName:
    """Validate the name of a tenant's schema; raise a UsageError if it is invalid."""
    problem = _problem(text)
    if problem is not None:
        raise UsageError(f"{text!a} cannot be the schema of a tenant: {problem}")
    return SchemaName(text)


def _problem(text: str) -> str | None:
    if not text or text != text.strip() or not text.isprintable():
        return "a name has printable characters and neither begins nor ends with a space"
    if len(text.encode()) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} bytes"
    if text.startswith(RESERVED_PREFIX) or text in RESERVED_TENANTS:
        return "the name is reserved"
    return None


@dataclass(frozen=True, slots=True)
class SchemaPattern:
    """The naming pattern of tenant schemas; `{tenant}` is replaced by the tenant's id."""

    text: str

    def name_for(self, tenant: TenantId) -> SchemaName:
        """Return the name of a tenant's schema."""
        return schema_name(self.text.replace(PLACEHOLDER, tenant))

    def __str__(self) -> str:
        return self.text


DEFAULT_PATTERN: Final = SchemaPattern("tenant_{tenant}")


def parse_schema_pattern(text: str) -> SchemaPattern:
    """Parse a pattern; raise a UsageError if it does not give each tenant its own schema."""
    rest = text.replace(PLACEHOLDER, "", 1)
    if rest == text or "{" in rest or "}" in rest:
        raise UsageError(f"{text!a} must have {PLACEHOLDER} exactly once, and no other braces")
    room = LONGEST_NAME - LONGEST_TENANT
    if len(rest.encode()) > room:
        raise UsageError(
            f"{text!a} is too long: besides {PLACEHOLDER} there is room for {room} bytes, because "
            f"a tenant id has up to {LONGEST_TENANT} and a schema name up to {LONGEST_NAME}"
        )
    pattern = SchemaPattern(text)
    pattern.name_for(TenantId("a" * LONGEST_TENANT))
    return pattern
