"""Rows of `webhook`: the receivers of events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import Row, delete, func, literal, null, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.connection.locks import Lock, take_lock
from tenantcron.store.schema.tables import webhook

# Why a webhook is disabled automatically.
GONE: Final = "the receiver answered 410 Gone"
# The values of these columns for a role that may not read them.
_HIDDEN: Final = {"url": literal("").label("url"), "secret_ref": null().label("secret_ref")}
_SEES_URLS: Final = text("SELECT has_table_privilege('tenantcron.webhook', 'SELECT')")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook; None as `tenants` means all, an empty URL means that the role may not read it."""

    name: str
    # Its query may contain a secret.
    url: str = field(repr=False)
    event_types: tuple[str, ...]
    tenants: tuple[TenantId, ...] | None = None
    secret_ref: str | None = None
    in_batches: bool = False
    created_by: str
    created_at: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    dropped: int = 0
    dropped_at: datetime | None = None


class WebhookHealth(NamedTuple):
    """The health of a webhook, without its URL."""

    name: str
    disabled_at: datetime | None
    disabled_reason: str | None
    dropped: int
    dropped_at: datetime | None


async def list_health(connection: AsyncConnection) -> list[WebhookHealth]:
    """Return the health of all webhooks, by name."""
    columns = (webhook.c[name] for name in WebhookHealth._fields)
    found = await connection.execute(select(*columns).order_by(webhook.c.name))
    return [WebhookHealth(*row) for row in found]


async def lock(connection: AsyncConnection) -> None:
    """Lock the webhooks against additions until the transaction ends."""
    await take_lock(connection, Lock.WEBHOOKS)


async def list_all(connection: AsyncConnection) -> list[Webhook]:
    """Return all webhooks by name, without URL and secret if the role may not read them."""
    sees_all = await connection.scalar(_SEES_URLS)
    columns = list(webhook.c) if sees_all else [_HIDDEN.get(c.name, c) for c in webhook.c]
    found = await connection.execute(select(*columns).order_by(webhook.c.name))
    return [_read(row) for row in found]


async def list_enabled(connection: AsyncConnection) -> list[Webhook]:
    """Return the enabled webhooks."""
    statement = select(webhook).where(webhook.c.disabled_at.is_(None)).order_by(webhook.c.name)
    return [_read(row) for row in await connection.execute(statement)]


async def find(connection: AsyncConnection, name: str) -> Webhook | None:
    """Return a webhook."""
    row = (await connection.execute(select(webhook).where(webhook.c.name == name))).one_or_none()
    return None if row is None else _read(row)


async def add(connection: AsyncConnection, new: Webhook) -> Webhook | None:
    """Insert a webhook; None if the name exists."""
    values = {
        "name": new.name,
        "url": new.url,
        "event_types": list(new.event_types),
        "tenant_ids": None if new.tenants is None else list(new.tenants),
        "secret_ref": new.secret_ref,
        "in_batches": new.in_batches,
        "created_by": new.created_by,
        "created_at": func.now(),
    }
    statement = insert(webhook).values(values).on_conflict_do_nothing().returning(webhook)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _read(row)


async def remove(connection: AsyncConnection, name: str) -> Webhook | None:
    """Delete a webhook and its undelivered events; None if it does not exist."""
    statement = delete(webhook).where(webhook.c.name == name).returning(webhook)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _read(row)


async def enable(connection: AsyncConnection, name: str) -> Webhook | None:
    """Deliver undelivered and future events to a webhook; None if it is not disabled."""
    return await _set(connection, name, None, None)


async def disable(
    connection: AsyncConnection, name: str, reason: str | None, at: datetime | None = None
) -> Webhook | None:
    """Stop deliveries to a webhook; None if it does not exist or is disabled already."""
    return await _set(connection, name, at or func.now(), reason)


async def _set(
    connection: AsyncConnection, name: str, disabled_at: object, reason: str | None
) -> Webhook | None:
    is_on = webhook.c.disabled_at.is_(None)
    statement = (
        update(webhook)
        .where(webhook.c.name == name, ~is_on if disabled_at is None else is_on)
        .values(disabled_at=disabled_at, disabled_reason=reason)
        .returning(webhook)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _read(row)


def _read(row: Row[tuple[object, ...]]) -> Webhook:
    values = row._mapping
    return Webhook(
        name=values["name"],
        url=values["url"],
        event_types=tuple(values["event_types"]),
        tenants=_tenants(values["tenant_ids"]),
        secret_ref=values["secret_ref"],
        in_batches=values["in_batches"],
        created_by=values["created_by"],
        created_at=values["created_at"],
        disabled_at=values["disabled_at"],
        disabled_reason=values["disabled_reason"],
        dropped=values["dropped"],
        dropped_at=values["dropped_at"],
    )


def _tenants(ids: Sequence[str] | None) -> tuple[TenantId, ...] | None:
    return None if ids is None else tuple(map(TenantId, ids))
