"""The connection of a replica to the Temporal server.

One channel carries all calls of a replica, and reconnects by itself. The address is a setting of
the platform, which no manifest can change, so the egress rules of tenants do not apply: gRPC
resolves the name. Certificates are always verified. Proxies of the environment are ignored.

Secrets are read for each call. If the client certificate has changed, a new channel replaces the
old one.
"""

from typing import Final, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message
from grpc import aio
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
    RequestCancelWorkflowExecutionRequest,
    StartWorkflowExecutionRequest,
)

from tenantcron.core.egress import Url
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.settings import Settings
from tenantcron.targets.grpc.connecting import certificate_bundle
from tenantcron.targets.http.secrets import read_secret

_SERVICE: Final = "/temporal.api.workflowservice.v1.WorkflowService"
# Temporal refuses payloads of more than 2 MiB by default.
_LONGEST_MESSAGE: Final = 16 * 1024**2
_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    # No service config from DNS, and no retries: the caller decides on retries.
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", _LONGEST_MESSAGE),
    # A server that has vanished is noticed during a long poll.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 10_000),
    ("grpc.primary_user_agent", "tenantcron"),
)

Request = (
    DescribeWorkflowExecutionRequest
    | GetWorkflowExecutionHistoryRequest
    | RequestCancelWorkflowExecutionRequest
    | StartWorkflowExecutionRequest
)
Response = TypeVar("Response", bound=Message)


class ClientCertificate(NamedTuple):
    """The certificate of a replica and its key, as PEM."""

    certificate: bytes | None
    key: bytes | None


class TemporalServer:
    """Calls the frontend of a Temporal server."""

    def __init__(self, address: Url, settings: Settings) -> None:
        self._address = address
        self._trusted = certificate_bundle(settings.ca_file)
        self._api_key = settings.temporal_api_key
        self._refs = (settings.temporal_certificate, settings.temporal_key)
        self._channel: aio.Channel | None = None
        # Has the certificate before the last change; long polls may still use it.
        self._previous: aio.Channel | None = None
        self._identity = ClientCertificate(None, None)

    async def call(self, request: Request, response: type[Response], seconds: float) -> Response:
        """Call a method; raise an AioRpcError, or a RetryCall if a secret is missing."""
        channel, metadata = await self._connected(), await self._metadata(request.namespace)
        # The method `X` takes an `XRequest`.
        method = type(request).__name__.removesuffix("Request")
        rpc = channel.unary_unary(
            f"{_SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        answered: Response = await rpc(request, timeout=seconds, metadata=metadata)
        return answered

    async def close(self) -> None:
        """Close the channels."""
        for channel in filter(None, (self._channel, self._previous)):
            await channel.close()

    async def _metadata(self, namespace: str) -> tuple[tuple[str, str], ...]:
        if self._api_key is None:
            return ()
        key = (await _read(self._api_key)).decode("ascii", "replace")
        return (("authorization", f"Bearer {key}"), ("temporal-namespace", namespace))

    async def _connected(self) -> aio.Channel:
        certificate, key = [ref and await _read(ref) for ref in self._refs]
        identity = ClientCertificate(certificate, key)
        if self._channel is None or identity != self._identity:
            outdated, self._previous = self._previous, self._channel
            self._identity, self._channel = identity, self._open(identity)
            if outdated is not None:
                await outdated.close()
        return self._channel

    def _open(self, identity: ClientCertificate) -> aio.Channel:
        where = f"{self._address.host}:{self._address.port}"
        if self._address.scheme == "http":
            return aio.insecure_channel(where, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            self._trusted, private_key=identity.key, certificate_chain=identity.certificate
        )
        return aio.secure_channel(where, credentials, options=_OPTIONS)


async def _read(ref: SecretRef) -> bytes:
    """Read a secret that the platform's own setting names, so it is allowed."""
    return await read_secret(ref, (str(ref),))
