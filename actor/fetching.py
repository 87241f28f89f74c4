"""Requests of receivers to the issuer: JSON over HTTP, using only the standard library.

Redirects are not followed and proxies of the environment are not used: either could answer in place
of the issuer.
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
    """Rejects redirects: only the configured address may answer."""

    def redirect_request(self, *_: object) -> None:
        """Return the redirect itself as the response, which is not the expected document."""


def check_address(url: str) -> None:
    """Raise a ValueError unless it is an HTTP URL: urllib would also read files."""
    if urlsplit(url).scheme not in ("https", "http"):
        raise ValueError("the address of the issuer must begin with https:// or http://")


def shown_address(url: str) -> str:
    """Return an address without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch_json(
    url: str,
    patience: timedelta,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> object:
    """Fetch a document, or post a form if given; raise an OSError or a ValueError on failure."""
    opener = build_opener(ProxyHandler({}), _NoRedirects())
    data = None if form is None else urlencode(form).encode()
    request = Request(url, data, {"Accept": "application/json", **(headers or {})})  # noqa: S310 -- the scheme was checked
    try:
        with opener.open(request, timeout=patience.total_seconds()) as response:
            body = response.read(_MOST_BYTES + 1)
    except HTTPError as error:
        error.close()
        raise
    if len(body) > _MOST_BYTES:
        raise URLError("the document is too long")
    return json.loads(body)
