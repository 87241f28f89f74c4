"""The headers that a manifest cannot set."""

# Ours, the connection's, and those that carry credentials: they have no place in Git.
_RESERVED = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "idempotency-key",
        "proxy-authorization",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_RESERVED_PREFIX = "x-tenantcron-"


def is_reserved_header(name: str) -> bool:
    """Whether tenantcron or the connection sets this header, or it carries credentials.

    Many servers hand `X_Tenantcron_Tenant` and `X-Tenantcron-Tenant` to a service as the same.
    """
    small = name.lower().replace("_", "-")
    return small in _RESERVED or small.startswith(_RESERVED_PREFIX)
