"""The options of a gRPC target, read from a manifest or from a stored definition."""

from typing import Final, NamedTuple

from tenantcron.core.auth import TokenAuth, read_token_auth
from tenantcron.core.egress import Url, read_url
from tenantcron.core.values import JsonObject

# The published service, and its only method.
SERVICE: Final = "tenantcron.v1.SagaRunner"
METHOD: Final = "Run"
SERVICE_PATTERN: Final = r"([A-Za-z_][A-Za-z0-9_]*\.)*[A-Za-z_][A-Za-z0-9_]*"


class GrpcTarget(NamedTuple):
    """A gRPC service that runs the saga."""

    # The method as a URL, to which the egress rules apply: gRPC is a POST in HTTP/2.
    url: Url
    auth: TokenAuth | None = None

    @property
    def authority(self) -> str:
        """Host and port, as the service knows itself."""
        return f"{self.url.host}:{self.url.port}"

    @property
    def audience(self) -> str:
        """The service that a token is for."""
        return (self.auth.audience if self.auth else None) or self.url.origin


def read_grpc_target(options: JsonObject) -> GrpcTarget | None:
    """Read the options; None if the address is not one that can be called."""
    url = read_address(options.get("address"), is_plaintext=options.get("plaintext") is True)
    if url is None:
        return None
    service = options.get("service", SERVICE)
    return GrpcTarget(
        url._replace(target=f"/{service}/{METHOD}"), read_token_auth(options.get("auth"))
    )


def read_address(address: object, *, is_plaintext: bool) -> Url | None:
    """Read `host` or `host:port` by the strict rules of URLs; None if it is neither."""
    if not isinstance(address, str) or "/" in address or "?" in address:
        return None
    return read_url(f"{'http' if is_plaintext else 'https'}://{address}")
