"""Names that become identifiers, headers and URLs; they are validated once, on input."""

import re
from typing import NewType

from tenantcron.core.errors import UsageError

TenantId = NewType("TenantId", str)
SagaName = NewType("SagaName", str)
ScheduleName = NewType("ScheduleName", str)
# The user on whose behalf a schedule runs: `user:maria`.
Owner = NewType("Owner", str)

LONGEST_TENANT = 48
TENANT_PATTERN = r"[a-z][a-z0-9_-]{0,47}"
NAME_PATTERN = r"[a-z][a-z0-9_-]{0,127}"
TENANT_EXPECTED = "a tenant id: a-z first, then a-z, 0-9, _ or -, at most 48 characters"
OWNER_PATTERN = r"user:[A-Za-z0-9][A-Za-z0-9._@+|=-]{0,127}"
NAME_EXPECTED = "a name: a-z first, then a-z, 0-9, _ or -, at most 128 characters"
OWNER_EXPECTED = (
    "an owner: user: and an id of letters, digits, dots, bars or _ @ + = -, at most 128 characters"
)

# The provider of the schedules that manifests declare.
MANIFESTS = "tenant"

# Schemas that no tenant can have. Postgres reserves everything that begins with pg_.
RESERVED_TENANTS = frozenset({"public", "information_schema", "tenantcron"})
RESERVED_PREFIX = "pg_"

_TENANT = re.compile(TENANT_PATTERN)
_NAME = re.compile(NAME_PATTERN)
_OWNER = re.compile(OWNER_PATTERN)


def is_tenant_id(text: str) -> bool:
    """Whether the text has the form of a tenant id; it may still be reserved."""
    return _TENANT.fullmatch(text) is not None


def is_reserved(tenant: str) -> bool:
    """Whether the id belongs to Postgres or to tenantcron itself."""
    return tenant in RESERVED_TENANTS or tenant.startswith(RESERVED_PREFIX)


def tenant_id(text: str) -> TenantId:
    """Validate an id from outside; afterwards it may be used as an identifier."""
    if not is_tenant_id(text):
        raise UsageError(f"{text!a} is not {TENANT_EXPECTED}")
    if is_reserved(text):
        raise UsageError(f"{text!r} cannot be a tenant: the name is reserved")
    return TenantId(text)


def is_name(text: str) -> bool:
    """Whether the text may name a saga or a schedule."""
    return _NAME.fullmatch(text) is not None


def is_owner(text: str) -> bool:
    """Whether the text may name the owner of a schedule; headers and tokens contain it, too."""
    return _OWNER.fullmatch(text) is not None
