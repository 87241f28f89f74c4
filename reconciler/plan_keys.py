"""Keys that sign saved plans, if the settings have any.

A checksum detects accidental changes, but any program can compute it. A signature proves that a
plan was made with the key. If a key is set, an apply accepts only signed plans. There may be
several keys: the first one signs, all of them verify, so a key can be rotated while plans are in
review.
"""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tenantcron.core.errors import UsageError
from tenantcron.core.master_keys import MasterKey, MasterKeyError, parse_master_keys
from tenantcron.core.settings import Settings
from tenantcron.core.words import unreadable


@dataclass(frozen=True, slots=True)
class PlanKeys:
    """The keys of this process; without keys, plans are neither signed nor verified."""

    keys: tuple[MasterKey, ...] = ()

    def sign(self, form: str, checksum: str) -> str | None:
        """Return the signature of a plan with this format and checksum."""
        return _signature(self.keys[0], form, checksum) if self.keys else None

    def require_signed(self, file: Path, form: str, checksum: str, signature: object) -> None:
        """Refuse a plan that none of the keys has signed."""
        if not self.keys:
            return
        if not isinstance(signature, str):
            raise UsageError(
                f"{file}: the plan is not signed, but a plan key is set: plan again with the key"
            )
        found = signature.encode()
        if not any(
            hmac.compare_digest(_signature(key, form, checksum).encode(), found)
            for key in self.keys
        ):
            raise UsageError(f"{file}: the plan was edited or signed with another key: plan again")


def plan_keys(settings: Settings) -> PlanKeys:
    """Return the keys of the settings."""
    text, place = settings.plan_key, "TENANTCRON_PLAN_KEY"
    if settings.plan_key_file is not None:
        place = str(settings.plan_key_file)
        try:
            text = settings.plan_key_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{place}: the plan key cannot be read: {unreadable(error)}") from None
    if text is None:
        return PlanKeys()
    try:
        return PlanKeys(parse_master_keys(text))
    except MasterKeyError as error:
        raise UsageError(f"{place}: {error}") from None


def _signature(key: MasterKey, form: str, checksum: str) -> str:
    signed = f"tenantcron plan\n{form}\n{checksum}".encode()
    return hmac.new(key.secret, signed, sha256).hexdigest()
