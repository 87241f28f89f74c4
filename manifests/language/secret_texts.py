"""Tells texts that look like secrets from all others, with few false alarms.

By the name that a text has, by how well-known keys begin, or by being long and random. Ids, hashes
of commits, versions, media types and words are none of these.
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
# Secrets inside of a longer text: keys of AWS, private keys, and passwords in URLs.
_INSIDE = r"\b(AKIA|ASIA)[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----|://[^\s/:@]+:[^\s/@]+@"
# In a payload a token or a signature may be any word of the platform's; these names are plain.
_PLAIN_NAME = (
    r"(.*[-_.])?(api[-_]?key|access[-_]?key|(private|secret|signing|auth)[-_]?key"
    r"|client[-_]?secret|password|passwd|pwd)"
)
_HEX = "[0-9a-f]{32,}"
_LONG = "[A-Za-z0-9+/_=-]{24,}"
_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_COMMIT = 40
# Bits a character: words have about 3, random text of such a length more than 4.
_RANDOM, _RANDOM_HEX = 4.0, 3.0
# What is shorter is a word or a switch, whatever its name.
_SHORTEST = 8
_SHORTEST_PASSWORD = 4
# Of longer ones the beginning is looked at: a hook must stay quick whatever it is given.
_LONGEST = 512


def is_secret(name: str, text: str) -> bool:
    """Whether a text looks like a secret, also by the name that it has."""
    text = text[:_LONGEST]
    if _is(_KNOWN, text):
        return True
    if _is(_NAME, name) and len(text) >= _SHORTEST:
        return True
    return _is_random(text)


def is_secret_of_payload(name: str, text: str) -> bool:
    """Whether a text of a payload is a secret beyond doubt: by its name or as a well-known key."""
    text = text[:_LONGEST]
    if _is(_PLAIN_NAME, name[:_LONGEST]) and len(text) >= _SHORTEST_PASSWORD and "{{" not in text:
        return True
    return _is(_KNOWN, text) or re.search(_INSIDE, text) is not None


def secrets_of_query(target: str) -> Iterator[str]:
    """Yield the names of what looks like a secret in the query of a URL."""
    _, _, query = target.partition("?")
    for part in re.split("[&;]", query):
        name, _, text = part.partition("=")
        if is_secret(name[:_LONGEST], text):
            yield name


def _is(pattern: str, text: str) -> bool:
    """Patterns are compiled when they are needed first: most manifests need none of them."""
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


def _is_random(text: str) -> bool:
    if _is(_ID, text):
        return False
    if _is(_HEX, text):
        return len(text) != _COMMIT and _entropy(text) > _RANDOM_HEX
    return _is(_LONG, text) and _is_mixed(text) and _entropy(text) > _RANDOM


def _is_mixed(text: str) -> bool:
    """Words joined by dashes have no such mixture, and paths neither."""
    return all(re.search(kind, text) is not None for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * log2(count / len(text)) for count in counts)
