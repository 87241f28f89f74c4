"""Responses as YAML."""

import re
from collections.abc import Mapping, Sequence
from io import StringIO

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

# What YAML 1.1 reads as something else than text: `no`, `on`, numbers, `1:30`, dates, `~`.
_AMBIGUOUS = re.compile(r"(?i:y|n|yes|no|on|off|true|false|null|~|)|[-+.0-9].*")
_NEVER_BROKEN = 1_000_000


def as_yaml(value: Mapping[str, object] | Sequence[object]) -> str:
    """Return a response as YAML that readers of version 1.1 and 1.2 read the same."""
    yaml = YAML()
    yaml.width = _NEVER_BROKEN
    stream = StringIO()
    yaml.dump(_quoted(value), stream)
    return stream.getvalue()


def _quoted(value: object) -> object:
    if isinstance(value, str):
        return DoubleQuotedScalarString(value) if _AMBIGUOUS.fullmatch(value) else str(value)
    if isinstance(value, Mapping):
        return {_quoted(key): _quoted(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_quoted(inner) for inner in value]
    return value
