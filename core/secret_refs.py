"""References to secrets, and which references a tenant may use. A reference is not the secret.

An entry of the policy's `allowed_secrets` is `env:NAME` or `file:/path`. A trailing `*` matches the
rest of the name; in a path, the rest of the last segment. `{tenant}` as a path segment is replaced
by the tenant of the manifest, so a tenant cannot use the secret of another tenant.
Variable names have no such placeholder, because `a-b` and `a_b` would give the same name.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

ENV_PATTERN = "[A-Za-z_][A-Za-z0-9_]{0,127}"
ENV_EXPECTED = "the name of an environment variable"
# Absolute, without empty segments or segments that begin with a dot, so each path has one spelling.
_PART = "/[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}"
FILE_PATTERN = f"({_PART}){{1,16}}"
FILE_EXPECTED = "an absolute path such as /run/secrets/billing"
ENTRY_PATTERN = (
    rf"(env:[A-Za-z_][A-Za-z0-9_]{{0,127}}\*?|file:({_PART}|/\{{tenant\}}){{1,16}}(/?\*)?)"
)
ENTRY_EXPECTED = "env:NAME, env:PREFIX_*, file:/path or file:/folder/{tenant}/*"


class SecretRef(NamedTuple):
    """Where a secret is: in an environment variable of the scheduler, or in a file."""

    kind: Literal["env", "file"]
    name: str

    def __str__(self) -> str:
        """Return it in the form of a policy entry."""
        return f"{self.kind}:{self.name}"


def parse_ref(text: str) -> SecretRef | None:
    """Parse `env:NAME` or `file:/path`; None if the text is neither."""
    kind, _, name = text.partition(":")
    match kind:
        case "env" | "file":
            ref = SecretRef(kind, name)
            return ref if _is_well_formed(ref) else None
        case _:
            return None


def may_use(ref: SecretRef, entries: Iterable[str]) -> bool:
    """Whether the tenant's entries allow it to authenticate requests with a secret."""
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
