"""A running execution, and the minter of its tokens."""

import os
from pathlib import Path

import pytest
from support.minting import MARIA
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.scheduler.tokens.token_minting import Minter
from tenantcron.store.steps.claiming import Claimed


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        folder=tmp_path, master_key=os.urandom(32).hex(), issuer="https://cron.internal"
    )


@pytest.fixture
async def minter(scheduling: Scheduling, settings: Settings) -> Minter:
    return Minter(scheduling.database, settings, scheduling.clock)


@pytest.fixture
async def keys(scheduling: Scheduling, settings: Settings) -> SigningKeys:
    return SigningKeys(scheduling.database, KeyMaterial(settings), MARIA, scheduling.clock)


@pytest.fixture
async def claimed(scheduling: Scheduling) -> Claimed:
    """An execution that has been running since noon, with a lease of a minute."""
    await scheduling.waiting(1, tenant="acme", actor_id="maria", actor_source="manual")
    (started,) = (await scheduling.claim()).started
    return started
