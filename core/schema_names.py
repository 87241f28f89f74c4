"""Names of tenants' schemas: checked where they come in, quoted wherever they are used.

Postgres takes nearly any text as the name of a schema if it is quoted, and a platform may have made
use of that. So every name that can be shown is accepted, except names that belong to Postgres, to
tenantcron itself or to all tenants at once.
"""

from dataclasses import dataclass
from typing import Final, NewType

from tenantcron.core.errors import UsageError
from tenantcron.core.names import LONGEST_TENANT, RESERVED_PREFIX, RESERVED_TENANTS, TenantId

SchemaName = NewType("SchemaName", str)

# Postgres cuts identifiers after so many bytes: two long names could mean the same schema.
LONGEST_NAME: Final = 63
PLACE: Final = "{tenant}"


def schema_name(text: str) -> SchemaName:
    """Check the name of a schema that may become a tenant's; a UsageError says what is wrong."""
    problem = _problem(text)
    if problem is not None:
        raise UsageError(f"{text!a} cannot be the schema of a tenant: {problem}")
    return SchemaName(text)


def _problem(text: str) -> str | None:
    if not text or text != text.strip() or not text.isprintable():
        return "a name has visible characters and neither begins nor ends with a space"
    if len(text.encode()) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} bytes"
    if text.startswith(RESERVED_PREFIX) or text in RESERVED_TENANTS:
        return "the name is reserved"
    return None


@dataclass(frozen=True, slots=True)
class SchemaPattern:
    """How the schemas of tenants are named: `{tenant}` stands for the tenant's id."""

    text: str

    def name_for(self, tenant: TenantId) -> SchemaName:
        """Return the name of a tenant's schema."""
        return schema_name(self.text.replace(PLACE, tenant))

    def __str__(self) -> str:
        return self.text


DEFAULT_PATTERN: Final = SchemaPattern("tenant_{tenant}")


def parse_schema_pattern(text: str) -> SchemaPattern:
    """Read a pattern; a UsageError if it does not name a schema for each tenant."""
    rest = text.replace(PLACE, "", 1)
    if rest == text or "{" in rest or "}" in rest:
        raise UsageError(f"{text!a} must have {PLACE} in it exactly once, and no other braces")
    room = LONGEST_NAME - LONGEST_TENANT
    if len(rest.encode()) > room:
        raise UsageError(
            f"{text!a} is too long: beside {PLACE} there is room for {room} bytes, because a "
            f"tenant id has up to {LONGEST_TENANT} and a schema name up to {LONGEST_NAME}"
        )
    pattern = SchemaPattern(text)
    pattern.name_for(TenantId("a" * LONGEST_TENANT))
    return pattern
