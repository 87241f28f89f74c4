"""Names for completion from a server, with the standard library: httpx takes longer to import."""

import json
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlsplit


class ServerNames:
    """Tenants and schedules that the caller sees on a server, from the first page of each."""

    def __init__(self, url: str, token: str | None, patience: float) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._patience = patience

    def tenants(self, prefix: str) -> Sequence[str]:
        """Return ids of tenants that begin with the prefix."""
        return self._page("/v1/tenants", "tenants", "tenant", prefix)

    def schedules(self, tenant: str, prefix: str) -> Sequence[str]:
        """Return names of the tenant's schedules that begin with the prefix."""
        path = f"/v1/tenants/{quote(tenant, safe='')}/schedules"
        return self._page(path, "schedules", "name", prefix)

    def _page(self, path: str, key: str, name: str, prefix: str) -> list[str]:
        try:
            found = [str(item[name]) for item in self._get(path)[key]]
        except (OSError, HTTPException, ValueError, LookupError, TypeError):
            return []  # not a server, or not one that answers: the command itself explains it
        return [text for text in found if text.startswith(prefix)]

    def _get(self, path: str) -> dict[str, list[dict[str, object]]]:
        parts = urlsplit(self._url)
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = connect(parts.netloc, timeout=self._patience)
        try:
            connection.request(
                "GET", f"{parts.path.rstrip('/')}{path}?limit=200", None, self._headers
            )
            page: dict[str, list[dict[str, object]]] = json.load(connection.getresponse())
        finally:
            connection.close()
        return page
