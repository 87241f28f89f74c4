"""TLS of event buses: public CA certificates, and those of the setting `ca_file`."""

import ssl
from pathlib import Path

import certifi

from tenantcron.events.bus import BusError


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Return a context that verifies the certificate and the name of the server."""
    return ssl.create_default_context(cadata=ca_certificates(ca_file))


def ca_certificates(ca_file: Path | None) -> str:
    """Return the trusted certificates in PEM."""
    public = Path(certifi.where()).read_text(encoding="utf-8")
    if ca_file is None:
        return public
    try:
        return f"{public}\n{ca_file.read_text(encoding='utf-8')}"
    except (OSError, UnicodeDecodeError) as error:
        raise BusError(f"ca_file cannot be read: {error}") from error
