"""Channels of gRPC targets, only to checked addresses.

gRPC resolves names itself, and would look up a name again at each reconnect. So a channel gets the
checked addresses instead of the name. Everything above it uses the name: the authority of requests,
the server name in the TLS handshake, and the check of the certificate.

A channel lives for one call: the next call resolves and checks the name again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import certifi
import grpc
from grpc import aio

from tenantcron.core.egress import bare
from tenantcron.core.errors import UsageError
from tenantcron.core.grpc_targets import GrpcTarget
from tenantcron.targets.http.client import LONGEST_CONNECT

# A result of 16 KiB is stored. A server that sends more than this fails the call.
LONGEST_MESSAGE: Final = 256 * 1024

_OPTIONS: Final = (
    # No proxy of the environment: it would resolve the name again.
    ("grpc.enable_http_proxy", 0),
    # No service config from DNS, and no retries: the schedule decides on retries.
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_retries", 0),
    # Not shared with the channel of another call, whose addresses were checked at another time.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", LONGEST_MESSAGE),
    # Also the longest time of one attempt to connect.
    ("grpc.min_reconnect_backoff_ms", int(LONGEST_CONNECT.total_seconds() * 1000)),
    ("grpc.primary_user_agent", "tenantcron"),
)


def new_channel(
    target: GrpcTarget, addresses: Sequence[str], trusted: grpc.ChannelCredentials
) -> aio.Channel:
    """Return a channel to checked addresses, which connects at the first call."""
    options = [*_OPTIONS, ("grpc.default_authority", target.authority)]
    where = channel_target(addresses, target.url.port)
    if target.url.scheme == "http":
        return aio.insecure_channel(where, options=options)
    options.append(("grpc.ssl_target_name_override", bare(target.url.host)))
    return aio.secure_channel(where, trusted, options=options)


def channel_target(addresses: Sequence[str], port: int) -> str:
    """Return the addresses in the syntax of gRPC, which has no mixture of both families."""
    four = [f"{address}:{port}" for address in addresses if ":" not in address]
    six = [f"[{bare(address)}]:{port}" for address in addresses if ":" in address]
    return f"ipv4:{','.join(four)}" if four else f"ipv6:{','.join(six)}"


def trusted_roots(ca_file: Path | None) -> grpc.ChannelCredentials:
    """Return the credentials that trust the public CAs, and those of the file."""
    return grpc.ssl_channel_credentials(root_certificates=certificate_bundle(ca_file))


def certificate_bundle(ca_file: Path | None) -> bytes:
    """Return the certificates of the public CAs, and those of the file, as PEM."""
    bundle = Path(certifi.where()).read_bytes()
    if ca_file is not None:
        try:
            bundle += b"\n" + ca_file.read_bytes()
        except OSError as error:
            text = f"{ca_file}: no certificates can be read from it: {error.strerror}"
            raise UsageError(text) from error
    return bundle
