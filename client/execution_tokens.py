"""Calls about execution tokens, for the services that receive them.

The token of the client is the execution token itself. An API token may introspect those of its own
tenants, too.
"""

from tenantcron.client.calls import ApiCall, path_of
from tenantcron.service.responses.execution_tokens import RenewedToken, TokenIntrospection


def introspect(token: str) -> ApiCall[TokenIntrospection]:
    """Get whether the attempt of a token still runs, and its claims."""
    path = path_of("tokens:introspect")
    return ApiCall("POST", path, TokenIntrospection, body={"token": token})


def renew() -> ApiCall[RenewedToken]:
    """Get a new token for the client's own execution token."""
    return ApiCall("POST", path_of("tokens:renew"), RenewedToken)
