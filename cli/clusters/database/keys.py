"""Keys that sign execution tokens, in a database."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from tenantcron.actor.keys import Algorithm
from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.service.responses.keys import key_as_json, keys_as_json
from tenantcron.service.responses.platform_shapes import (
    RewrappedResponse,
    SigningKeyList,
    SigningKeyResponse,
)


@dataclass(frozen=True, slots=True)
class DatabaseKeys:
    """The signing keys of a database, and those of the settings."""

    caller: LocalCaller

    async def list_all(self) -> SigningKeyList:
        """Return all keys."""
        keys = self._keys()
        return keys_as_json(keys.material.own(), await keys.list_all())

    async def rotate(self, algorithm: str, lead: timedelta) -> SigningKeyResponse:
        """Create a key that signs after the lead."""
        return key_as_json(await self._keys().rotate(Algorithm(algorithm), lead))

    async def retire(self, kid: str) -> SigningKeyResponse:
        """Revoke a key."""
        return key_as_json(await self._keys().retire(kid))

    async def rewrap(self) -> RewrappedResponse:
        """Encrypt all private keys with the first master key."""
        return {"rewrapped": await self._keys().rewrap()}

    async def key_set(self) -> Mapping[str, object]:
        """Return the public keys as a JSON Web Key Set."""
        return await self._keys().key_set()

    def _keys(self) -> SigningKeys:
        return SigningKeys(self.caller.database, KeyMaterial(self.caller.settings), self.caller.who)
