"""How receivers ask the issuer: JSON over HTTP, with nothing but the standard library.

No redirect is followed and no proxy of the environment is used: each could answer in place of the
issuer.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

_MOST_BYTES: Final = 256 * 1024


class _NoRedirects(HTTPRedirectHandler):
    """The answer comes from the address that was configured, and from no other."""

    def redirect_request(self, *_: object) -> None:
        """Leave the answer as it is, which is not the expected document."""


def check_address(url: str) -> None:
    """Raise a ValueError unless it is a web address: the library would also read files."""
    if urlsplit(url).scheme not in ("https", "http"):
        raise ValueError("the address of the issuer has to begin with https://, or http://")


def shown_address(url: str) -> str:
    """Return what of an address may be shown: no user, no password and no query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch_json(
    url: str,
    patience: timedelta,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> object:
    """Return a document; with a form, post that. Raise an OSError or a ValueError otherwise."""
    opener = build_opener(ProxyHandler({}), _NoRedirects())
    data = None if form is None else urlencode(form).encode()
    request = Request(url, data, {"Accept": "application/json", **(headers or {})})  # noqa: S310 -- the scheme was checked
    try:
        with opener.open(request, timeout=patience.total_seconds()) as answer:
            body = answer.read(_MOST_BYTES + 1)
    except HTTPError as error:
        error.close()
        raise
    if len(body) > _MOST_BYTES:
        raise URLError("the document is too long")
    return json.loads(body)
