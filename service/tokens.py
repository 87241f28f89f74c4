"""API tokens: create, list and revoke them."""

from dataclasses import dataclass
from datetime import timedelta

from tenantcron.actor.api_tokens import NewToken, make_token
from tenantcron.actor.attribution import Attribution
from tenantcron.actor.grants import Grant
from tenantcron.scheduler.inspect.schedule_status import UnknownError, existing_tenant
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import api_tokens, audit_records
from tenantcron.store.rows.api_tokens import TokenRow


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A new token: its row, and its secret, which is not stored."""

    row: TokenRow
    new: NewToken


async def create_token(
    database: Database, who: Attribution, *, name: str, grant: Grant, lives: timedelta
) -> CreatedToken:
    """Create a token; raise OperationError if an active token has the name."""
    new = make_token()
    async with database.transaction() as connection:
        await audit_records.act(connection, who)
        if grant.tenant is not None:
            await existing_tenant(connection, grant.tenant)
        row = await api_tokens.add(
            connection, new, name=name, grant=grant, created_by=who.changed_by, lives=lives
        )
    if row is None:
        raise OperationError(f"a token `{name}` exists: revoke it first, or use another name")
    return CreatedToken(row, new)


async def list_tokens(database: Database) -> list[TokenRow]:
    """Return all tokens, the newest first."""
    async with database.transaction() as connection:
        return list(await api_tokens.list_all(connection))


async def revoke_token(database: Database, who: Attribution, token_id: str) -> TokenRow:
    """Revoke a token; a revoked token stays unchanged."""
    async with database.transaction() as connection:
        await audit_records.act(connection, who)
        row = await api_tokens.revoke(connection, token_id)
    if row is None:
        raise UnknownError(f"there is no token {token_id!a}", "`tenantcron token list` shows all")
    return row
