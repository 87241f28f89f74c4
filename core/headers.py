"""The headers that a manifest cannot set."""

# Headers of tenantcron, of the connection, and with credentials, which do not belong in Git.
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

    Many servers treat `X_Tenantcron_Tenant` and `X-Tenantcron-Tenant` as the same header.
    """
    small = name.lower().replace("_", "-")
    return small in _RESERVED or small.startswith(_RESERVED_PREFIX)
