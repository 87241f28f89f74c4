"""A service that accepts attempts, and reports their end: `python worker.py [PORT]`.

`worker.ts` is the same in TypeScript. docs/targets-callback.md has the protocol.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tenantcron.client.callbacks import CallbackWorker, WorkCancelled


def work(worker: CallbackWorker, execution: dict[str, Any], key: str) -> None:
    """Write one invoice for each customer in the payload."""
    customers = execution["payload"]["customers"]
    try:
        with worker.working() as attempt:
            for number, customer in enumerate(customers):
                attempt.raise_if_cancelled()
                attempt.progress(100 * number / len(customers), customer)
                time.sleep(0.5)  # a real one takes a moment as well
                print(f"{execution['tenant']}: invoice for {customer}, key {key}", flush=True)
            attempt.result = {"invoices": len(customers)}
    except WorkCancelled as cancelled:
        print(f"stopped: {cancelled}", flush=True)


class Handler(BaseHTTPRequestHandler):
    """Accepts attempts."""

    def do_POST(self) -> None:
        """Start the work, and respond at once."""
        execution = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        worker = CallbackWorker.of_headers(dict(self.headers.items()))
        key = self.headers["Idempotency-Key"]
        # A real worker stores the request before it accepts it, so that a restart does not lose it.
        Thread(target=work, args=(worker, execution, key), daemon=True).start()
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    server = ThreadingHTTPServer(("localhost", port), Handler)
    print(f"serving at port {port}", flush=True)
    server.serve_forever()
