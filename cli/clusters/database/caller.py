"""The user of a command with access to the database."""

from dataclasses import dataclass

from tenantcron.actor.attribution import Attribution
from tenantcron.cli.database import acting
from tenantcron.cli.environment import current_settings
from tenantcron.core.settings import Settings
from tenantcron.manifests.policy import policy_in
from tenantcron.provider.schedule_limits import Bounds
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.store.connection.engine import Database


@dataclass(frozen=True, slots=True)
class LocalCaller:
    """The user of a command, who acts with the settings of the working directory."""

    database: Database
    # As given with --actor.
    actor: str | None

    @property
    def settings(self) -> Settings:
        """The settings of the environment and the working directory."""
        return current_settings()

    @property
    def who(self) -> Attribution:
        """The actor of changes."""
        return acting(self.actor)

    def operator(self) -> Operator:
        """Return the operator that acts as the caller."""
        given = self.settings
        return Operator(self.database, given, self.who, bounds=_bounds(given))


def _bounds(given: Settings) -> Bounds:
    """Return the bounds of schedules in the policy of the working directory."""
    policy = policy_in(given.folder, None)
    return Bounds(policy.minimum_interval, policy.max_schedules_per_tenant, policy.caps)
