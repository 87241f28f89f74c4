"""References to secrets: where one is kept, never the secret. And who may refer to which.

An entry of the policy's `allowed_secrets` is `env:NAME` or `file:/path`. A `*` at its end stands
for the rest of the name, in a path for the rest of the last part. `{tenant}` as a part of a path
stands for the tenant whose manifest it is: so one tenant cannot have requests signed with the
secret of another. Names of variables have no such thing, because `a-b` and `a_b` would be one.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

ENV_PATTERN = "[A-Za-z_][A-Za-z0-9_]{0,127}"
ENV_EXPECTED = "the name of an environment variable"
# Absolute, with no empty part and none that begins with a dot: there is one way to write it.
_PART = "/[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}"
FILE_PATTERN = f"({_PART}){{1,16}}"
FILE_EXPECTED = "an absolute path such as /run/secrets/billing"
ENTRY_PATTERN = (
    rf"(env:[A-Za-z_][A-Za-z0-9_]{{0,127}}\*?|file:({_PART}|/\{{tenant\}}){{1,16}}(/?\*)?)"
)
ENTRY_EXPECTED = "env:NAME, env:PREFIX_*, file:/path or file:/folder/{tenant}/*"

_TENANT = "{tenant}"


class SecretRef(NamedTuple):
    """Where a secret is kept: in a variable of the scheduler's environment, or in a file."""

    kind: Literal["env", "file"]
    name: str

    def __str__(self) -> str:
        """Write it as an entry of the policy."""
        return f"{self.kind}:{self.name}"


def of_tenant(entries: tuple[str, ...], tenant: str) -> tuple[str, ...]:
    """Return the entries of a policy as they hold for one tenant."""
    return tuple(entry.replace(_TENANT, tenant) for entry in entries)


def may_use(ref: SecretRef, entries: Iterable[str]) -> bool:
    """Whether something may be signed with a secret, by the entries of the tenant."""
    return _is_well_formed(ref) and any(_covers(entry, ref) for entry in entries)


def _is_well_formed(ref: SecretRef) -> bool:
    pattern = ENV_PATTERN if ref.kind == "env" else FILE_PATTERN
    return re.fullmatch(pattern, ref.name) is not None


def _covers(entry: str, ref: SecretRef) -> bool:
    if not entry.endswith("*"):
        return str(ref) == entry
    prefix = entry[:-1]
    rest = str(ref)[len(prefix) :]
    return str(ref).startswith(prefix) and rest != "" and "/" not in rest
