"""Digests of policies: whether two places check manifests with the same rules."""

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from hashlib import sha256
from typing import Final

from tenantcron.manifests.policy import Policy

_LENGTH: Final = 12


def policy_digest(policy: Policy) -> str:
    """Return the first 12 hexadecimal digits of a checksum; equal policies have equal digests."""
    text = json.dumps(_plain(policy._asdict()), sort_keys=True)
    return sha256(text.encode()).hexdigest()[:_LENGTH]


def _plain(value: object) -> object:
    """Return a value as JSON has it; the order of sets does not matter, nor that of mappings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(item), sort_keys=True) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
