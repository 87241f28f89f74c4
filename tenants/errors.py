"""Errors of tenants, with instructions."""

from tenantcron.core.errors import DeclinedError


class TenantError(DeclinedError):
    """A tenant does not exist, or is not in a state that allows this."""


class UnknownTenantError(TenantError):
    """There is no such tenant."""


class SourcedTenantError(TenantError):
    """The tenant source manages this, so it cannot be changed here."""
