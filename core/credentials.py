"""Credentials in URLs, taken out of texts before they are shown, logged or stored.

Our own sentences name a place without its credentials in the first place. This is for the text of
others that they quote: what a user typed, what a library or a handler says.

A password that is not written as a URL needs it can hold slashes and at signs. So everything up to
the last at sign of a word is taken for credentials: now and then too much is hidden, never too
little. Of a query, the values of names that tell of a secret are hidden.
"""

import re

HIDDEN = "***"

# Credentials are no longer than that; without a bound, a hostile text would take minutes.
LONGEST = 2_000
# One slash is left of a URL that was read as a path. The example of our own messages is shown. A
# quotation mark that ends a text of JSON ends the word.
_USER = (
    r"(?P<scheme>\w:/{1,2}+)(?!user:password@)"
    rf"""(?:[^\s"]|"(?![,:}}\]])){{0,{LONGEST}}}@"""
)
_QUERY = (
    r"(?P<name>[?&;][\w.-]*(?:key|token|secret|passw(?:or)?d|pwd|credentials?|signature|sig|auth)=)"
    r"[^\s&;#\"'<>]+"
)
_CREDENTIALS = re.compile(f"{_USER}|{_QUERY}", re.ASCII | re.IGNORECASE)


def without_credentials(text: str) -> str:
    """Return a text with the credentials of all URLs in it hidden."""
    # Nearly every text has no URL; those of logs come here by the thousand.
    return _CREDENTIALS.sub(_hidden, text) if ":/" in text else text


def masked(line: str) -> str:
    """Do so without changing the width of the line, for markers below it."""
    return _CREDENTIALS.sub(_stars, line) if ":/" in line else line


def _hidden(match: re.Match[str]) -> str:
    return f"{match['name']}{HIDDEN}" if match["name"] else f"{match['scheme']}{HIDDEN}@"


def _stars(match: re.Match[str]) -> str:
    kept = match["name"] or match["scheme"]
    end = "" if match["name"] else "@"
    return kept + "*" * (len(match[0]) - len(kept) - len(end)) + end
