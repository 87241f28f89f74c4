"""What can be wrong with a tenant, in words that say what to do next."""

from tenantcron.core.errors import TenantcronError


class TenantError(TenantcronError):
    """A tenant is not there, or not in a state that allows this."""


class UnknownTenantError(TenantError):
    """There is no such tenant."""


class SourcedTenantError(TenantError):
    """The tenant source manages this, so it cannot be changed here."""
