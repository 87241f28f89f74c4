"""Tells texts that look like secrets from all others, with few false alarms.

By the name that a text has, by how well-known keys begin, or by being long and random. Ids, hashes
of commits, versions, media types and words are none of these.
"""

import re
from collections import Counter
from collections.abc import Iterator
from math import log2

# `x-api-key`, `sig`, `client_secret`, `access-token`; not `x-token-kind`, `key` or `keyword`.
_NAME = re.compile(
    r"(.*[-_.])?(api[-_]?key|access[-_]?key|(private|secret|signing)[-_]?key|auth[-_]?key|token"
    r"|secret|password|passwd|pwd|credentials?|signature|sig|auth)",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"(bearer|basic|digest|token|apikey) +\S{8,}.*"
    r"|(sk|pk|rk)_(live|test)_\w+|gh[pousr]_\w+|github_pat_\w+|glpat-[\w-]+|xox[abprs]-[\w-]+"
    r"|(AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]+\.?[\w-]*|.*-----BEGIN .*",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-f]{32,}", re.IGNORECASE)
_LONG = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_COMMIT = 40
# Bits a character: words have about 3, random text of such a length more than 4.
_RANDOM, _RANDOM_HEX = 4.0, 3.0
# What is shorter is a word or a switch, whatever its name.
_SHORTEST = 8


def is_secret(name: str, text: str) -> bool:
    """Whether a text looks like a secret, also by the name that it has."""
    if _KNOWN.fullmatch(text) is not None:
        return True
    if _NAME.fullmatch(name) is not None and len(text) >= _SHORTEST:
        return True
    return _is_random(text)


def secrets_of_query(target: str) -> Iterator[str]:
    """Yield the names of what looks like a secret in the query of a URL."""
    _, _, query = target.partition("?")
    for part in re.split("[&;]", query):
        name, _, text = part.partition("=")
        if is_secret(name, text):
            yield name


def _is_random(text: str) -> bool:
    if _ID.fullmatch(text) is not None:
        return False
    if _HEX.fullmatch(text) is not None:
        return len(text) != _COMMIT and _entropy(text) > _RANDOM_HEX
    return _LONG.fullmatch(text) is not None and _is_mixed(text) and _entropy(text) > _RANDOM


def _is_mixed(text: str) -> bool:
    """Words joined by dashes have no such mixture, and paths neither."""
    return all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * log2(count / len(text)) for count in counts)
