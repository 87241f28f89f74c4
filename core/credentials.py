"""Redact credentials in URLs before a text is shown, logged or stored.

Our own messages never contain credentials. This is for quoted text: user input, and messages of
libraries and handlers.

A password that is not percent-encoded can contain slashes and at signs. So everything up to the
last at sign of a word counts as credentials: occasionally too much is hidden, never too little. In
a query string, the values of parameters whose names suggest a secret are hidden.
"""

import re

HIDDEN = "***"

# Longer than any credentials; without a bound, a hostile text would take minutes.
LONGEST = 2_000
# A URL that was parsed as a path has one slash left. The example in our own messages stays visible.
# A quotation mark that ends a JSON string ends the word.
_USER = (
    r"(?P<scheme>\w:/{1,2}+)(?!user:password@)"
    rf"""(?:[^\s"]|"(?![,:}}\]])){{0,{LONGEST}}}@"""
)
_QUERY = (
    r"(?P<name>[?&;][\w.-]*(?:key|token|secret|passw(?:or)?d|pwd|credentials?|signature|sig|auth)=)"
    r"[^\s&;#\"'<>]+"
)
_CREDENTIALS = re.compile(f"{_USER}|{_QUERY}", re.ASCII | re.IGNORECASE)
# API tokens, see `actor.api_tokens`; their ids are no secrets.
_API_TOKEN = re.compile(r"(?P<id>tc_[0-9a-z]{12}_)[0-9A-Za-z]{43}")


def without_credentials(text: str) -> str:
    """Return a text with API tokens, and the credentials in its URLs, hidden."""
    # Nearly no text has a token or a URL, and logs pass thousands of texts.
    if "tc_" in text:
        text = _API_TOKEN.sub(rf"\g<id>{HIDDEN}", text)
    return _CREDENTIALS.sub(_hidden, text) if ":/" in text else text


def masked(line: str) -> str:
    """Hide credentials without changing the width of the line, for markers below it."""
    return _CREDENTIALS.sub(_stars, line) if ":/" in line else line


def _hidden(match: re.Match[str]) -> str:
    return f"{match['name']}{HIDDEN}" if match["name"] else f"{match['scheme']}{HIDDEN}@"


def _stars(match: re.Match[str]) -> str:
    kept = match["name"] or match["scheme"]
    end = "" if match["name"] else "@"
    return kept + "*" * (len(match[0]) - len(kept) - len(end)) + end
