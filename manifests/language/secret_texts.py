"""Detect texts that look like secrets, with few false positives.

A text is suspicious by its name, by a well-known prefix, or because it is long and random. Ids,
commit hashes, versions, media types and words are not.
"""

import re
from collections import Counter
from collections.abc import Iterator
from math import log2

# `x-api-key`, `sig`, `client_secret`, `access-token`; not `x-token-kind`, `key` or `keyword`.
_NAME = (
    r"(.*[-_.])?(api[-_]?key|access[-_]?key|(private|secret|signing)[-_]?key|auth[-_]?key|token"
    r"|secret|password|passwd|pwd|credentials?|signature|sig|auth)"
)
_KNOWN = (
    r"(bearer|basic|digest|token|apikey) +\S{8,}.*"
    r"|(sk|pk|rk)_(live|test)_\w+|gh[pousr]_\w+|github_pat_\w+|glpat-[\w-]+|xox[abprs]-[\w-]+"
    r"|(AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]+(\.[\w-]*)?|.*-----BEGIN .*"
)
# Secrets inside longer texts: AWS keys, private keys, and passwords in URLs.
_INSIDE = r"\b(AKIA|ASIA)[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----|://[^\s/:@]+:[^\s/@]+@"
# In a payload, `token` or `signature` may be a word of the platform; these names are unambiguous.
_PLAIN_NAME = (
    r"(.*[-_.])?(api[-_]?key|access[-_]?key|(private|secret|signing|auth)[-_]?key"
    r"|client[-_]?secret|password|passwd|pwd)"
)
_HEX = "[0-9a-f]{32,}"
_LONG = "[A-Za-z0-9+/_=-]{24,}"
_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_COMMIT = 40
# Bits per character: words have about 3, random text of such a length more than 4.
_RANDOM, _RANDOM_HEX = 4.0, 3.0
# A shorter text is a word or a flag, whatever its name.
_SHORTEST = 8
_SHORTEST_PASSWORD = 4
# Only the beginning of longer texts is checked, so a hook is fast for any input.
_LONGEST = 512


def is_secret(name: str, text: str) -> bool:
    """Whether a text looks like a secret, by its content or its name."""
    text = text[:_LONGEST]
    if _is(_KNOWN, text):
        return True
    if _is(_NAME, name) and len(text) >= _SHORTEST:
        return True
    return _is_random(text)


def is_secret_of_payload(name: str, text: str) -> bool:
    """Whether a text of a payload is certainly a secret: by its name or as a well-known key."""
    text = text[:_LONGEST]
    if _is(_PLAIN_NAME, name[:_LONGEST]) and len(text) >= _SHORTEST_PASSWORD and "{{" not in text:
        return True
    return _is(_KNOWN, text) or re.search(_INSIDE, text) is not None


def secrets_of_query(target: str) -> Iterator[str]:
    """Yield the names of parameters in the query of a URL that look like secrets."""
    _, _, query = target.partition("?")
    for part in re.split("[&;]", query):
        name, _, text = part.partition("=")
        if is_secret(name[:_LONGEST], text):
            yield name


def _is(pattern: str, text: str) -> bool:
    """Match a pattern, which is compiled on first use because most manifests need none."""
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


def _is_random(text: str) -> bool:
    if _is(_ID, text):
        return False
    if _is(_HEX, text):
        return len(text) != _COMMIT and _entropy(text) > _RANDOM_HEX
    return _is(_LONG, text) and _is_mixed(text) and _entropy(text) > _RANDOM


def _is_mixed(text: str) -> bool:
    """Whether a text has letters of both cases and digits, unlike joined words and paths."""
    return all(re.search(kind, text) is not None for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * log2(count / len(text)) for count in counts)
