"""The root of all errors that tenantcron raises on purpose."""


class TenantcronError(Exception):
    """Something that the reader can mend; its text says what is wrong and what to do next."""


class UsageError(TenantcronError):
    """The command was called wrongly: a file that is not there, a policy that cannot be read."""
