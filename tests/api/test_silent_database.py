"""Requests to an API whose database goes silent."""

from datetime import timedelta
from pathlib import Path
from time import monotonic

from support.gate import gate
from support.serving import api_on

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import open_database

TIMEOUT = timedelta(seconds=1)
# Generous, for a busy machine.
SLOW_MACHINE = 5.0


async def test_a_request_does_not_outlive_its_timeout(database_url: str, tmp_path: Path) -> None:
    with gate(database_url) as between:
        settings = Settings(database_url=between.url, folder=tmp_path)
        async with (
            open_database(settings) as database,
            api_on(database, tmp_path, api_timeout=TIMEOUT) as api,
            await api.client("admin") as admin,
        ):
            assert (await admin.get("/v1/tenants")).status_code == 200
            between.fall_silent()
            for path in ("/v1/tenants", "/v1/tenants", "/readyz"):
                started = monotonic()
                answer = await admin.get(path)
                assert (answer.status_code, answer.json()["code"]) == (503, "TC710")
                assert monotonic() - started < TIMEOUT.total_seconds() + SLOW_MACHINE

            between.speak()
            assert (await admin.get("/v1/tenants")).status_code == 200
