"""Entries of the policy that allow names: which of them a tenant has, and what they match.

A trailing `*` of an entry, or of a part of it, matches the rest of the name. `{tenant}` is replaced
by the tenant of the manifest, so a tenant cannot use the names of another tenant.
"""

from collections.abc import Iterable
from typing import Final

_TENANT: Final = "{tenant}"


def of_tenant(entries: Iterable[str], tenant: str) -> tuple[str, ...]:
    """Return the policy entries of one tenant."""
    return tuple(entry.replace(_TENANT, tenant) for entry in entries)


def matches(pattern: str, name: str) -> bool:
    """Whether an entry, or a part of it, allows a name."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
