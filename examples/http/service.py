"""A service that runs sagas for HTTP targets: `BILLING_HMAC=secret python service.py [PORT]`.

It verifies the signature of each request, and does each piece of work once: the idempotency key is
stored in the transaction that does the work.
"""

import json
import os
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tenantcron.actor.signatures import InvalidSignatureError, verify_signature

SCHEMA = "CREATE TABLE IF NOT EXISTS done (idempotency_key text PRIMARY KEY, customers integer)"


class Handler(BaseHTTPRequestHandler):
    """Answers a request when its work is done."""

    server: "Service"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Run a saga."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            verify_signature(
                self.server.secret,
                method="POST",
                # As in the manifest, also behind a proxy.
                url=f"{self.server.origin}{self.path}",
                headers=dict(self.headers.items()),
                body=body,
            )
        except InvalidSignatureError as error:
            self._answer(401, {"error": str(error)})
            return
        execution = json.loads(body)
        if execution["saga"] != "generate_invoices":
            self._answer(404, {"error": f"there is no saga {execution['saga']}"})
            return
        is_first = self._work(execution, self.headers["Idempotency-Key"])
        self._answer(200, {"repeated": not is_first})

    def _work(self, execution: dict[str, Any], key: str) -> bool:
        """Return False if the work was done before."""
        customers = execution["payload"]["customers"]
        with sqlite3.connect(self.server.database) as connection:
            inserted = connection.execute(
                "INSERT INTO done VALUES (?, ?) ON CONFLICT DO NOTHING", (key, len(customers))
            )
        if inserted.rowcount == 1:
            attempt = self.headers["X-Tenantcron-Attempt"]
            print(
                f"{execution['tenant']}: {len(customers)} invoices, attempt {attempt}", flush=True
            )
        return inserted.rowcount == 1

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Service(ThreadingHTTPServer):
    """The service, with its secret and its database."""

    def __init__(self, port: int, secret: bytes, database: str = "billing.db") -> None:
        super().__init__(("localhost", port), Handler)
        self.secret, self.database = secret, database
        self.origin = f"http://localhost:{self.server_address[1]}"
        with sqlite3.connect(database) as connection:
            connection.execute(SCHEMA)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    service = Service(port, os.environ["BILLING_HMAC"].encode())
    print(f"serving at port {port}", flush=True)
    service.serve_forever()
