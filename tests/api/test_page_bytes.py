"""Pages have a limit of bytes, so that no response has hundreds of mebibytes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text
from support.serving import Api, pages

from tenantcron.api.pages import MOST_BYTES
from tenantcron.store.rows import audit_records
from tenantcron.store.rows.audit_records import AuditRow

RECORDS = "/v1/tenants/acme/audit-records"
_INSERT = text(
    "INSERT INTO tenantcron.audit_record (entity_type, entity_id, operation, changed_by,"
    " actor_type, actor_source, authenticated, tenant_id, changed_at, after)"
    " SELECT 'pause', 'acme/' || i, 'pause', 'ada', 'human', 'cli', false, 'acme',"
    " now() - make_interval(mins => i), jsonb_build_object('reason', repeat('x', :length))"
    " FROM generate_series(1, :count) AS i"
)


async def record(api: Api, count: int, length: int) -> None:
    """Insert audit records whose `after` has this length."""
    await api.tenants("acme")
    async with api.database.transaction() as connection:
        await connection.execute(_INSERT, {"count": count, "length": length})


async def test_a_page_ends_at_its_limit_of_bytes_and_the_next_one_continues(api: Api) -> None:
    await record(api, 60, 300_000)
    async with await api.client("viewer") as viewer:
        got = await viewer.get(RECORDS, params={"limit": 500})
        rows = await pages(viewer, RECORDS, "audit_records", limit=500)

    first = got.json()
    assert MOST_BYTES - 301_000 < len(got.content) <= MOST_BYTES + 1_000
    assert first["next"] is not None
    pauses = [row["entity_id"] for row in rows if row["entity_type"] == "pause"]
    assert pauses == [f"acme/{number}" for number in range(1, 61)]


async def test_a_row_that_exceeds_the_page_size_has_its_own_page(api: Api) -> None:
    await record(api, 3, MOST_BYTES + 1)
    async with await api.client("viewer") as viewer:
        rows = await pages(viewer, RECORDS, "audit_records", limit=500, entity_type="pause")
        first = (await viewer.get(RECORDS, params={"entity_type": "pause"})).json()

    assert [row["entity_id"] for row in rows] == ["acme/1", "acme/2", "acme/3"]
    assert len(first["audit_records"]) == 1


async def test_small_rows_fill_a_page_to_its_limit(api: Api) -> None:
    await record(api, 500, 1_000)
    async with await api.client("viewer") as viewer:
        full = (await viewer.get(RECORDS, params={"limit": 500, "entity_type": "pause"})).json()
        less = (await viewer.get(RECORDS, params={"limit": 499, "entity_type": "pause"})).json()

    assert (len(full["audit_records"]), full["next"]) == (500, None)
    assert len(less["audit_records"]) == 499
    assert less["next"] is not None


async def test_reading_ends_with_the_first_row_of_the_next_page(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await record(api, 300, 300_000)
    page, read = audit_records.page, 0

    async def counted(*arguments: Any, **options: Any) -> AsyncIterator[AuditRow]:
        nonlocal read
        async for row in page(*arguments, **options):
            read += 1
            yield row

    monkeypatch.setattr(audit_records, "page", counted)
    async with await api.client("viewer") as viewer:
        shown = (await viewer.get(RECORDS, params={"limit": 500})).json()["audit_records"]

    assert len(shown) < 20
    assert read == len(shown) + 1
