"""A gRPC service that runs sagas: `python examples/grpc/service.py [ADDRESS]`.

With `BILLING_KEYS`, the URL of a key set, it accepts only calls with an execution token.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

from tenantcron.actor.key_sets import FetchedKeys
from tenantcron.actor.receiving_grpc import ExecutionProofs
from tenantcron.actor.verification import Verifier
from tenantcron.targets.grpc.saga_runner_pb2 import RunRequest, RunResponse

AUDIENCE = "https://billing.internal"


def run(request: RunRequest, context: grpc.ServicerContext) -> RunResponse:
    """Run a saga; store `request.idempotency_key` with the work to do it only once."""
    if request.saga != "generate_invoices":
        context.abort(grpc.StatusCode.NOT_FOUND, f"there is no saga {request.saga}")
    month = json.loads(request.payload)["month"]
    print(f"invoices of {request.tenant} for {month}, attempt {request.attempt}", flush=True)
    return RunResponse(result=json.dumps({"month": month, "invoices": 12}))


def new_server() -> grpc.Server:
    """Return a server with the service `tenantcron.v1.SagaRunner`."""
    keys = os.environ.get("BILLING_KEYS")
    interceptors = []
    if keys:
        verifier = Verifier(keys=FetchedKeys(keys), issuer="tenantcron", audience=AUDIENCE)
        interceptors.append(ExecutionProofs(verifier))
    server = grpc.server(ThreadPoolExecutor(), interceptors=interceptors)
    method = grpc.unary_unary_rpc_method_handler(
        run,
        request_deserializer=RunRequest.FromString,
        response_serializer=RunResponse.SerializeToString,
    )
    service = grpc.method_handlers_generic_handler("tenantcron.v1.SagaRunner", {"Run": method})
    server.add_generic_rpc_handlers((service,))
    return server


if __name__ == "__main__":
    server = new_server()
    port = server.add_insecure_port(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
    server.start()
    print(f"serving at port {port}", flush=True)
    server.wait_for_termination()
