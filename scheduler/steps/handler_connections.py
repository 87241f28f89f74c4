"""Connections of handlers: with the tenant's role and schema, and attributed to the execution.

A handler in an isolated process requests the login from its scheduler before its first transaction.
It never gets the scheduler's own login, unless the setting `handler_role` allows that.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast
from uuid import UUID

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.connection.handler_transactions import (
    HandlerScope,
    HandlerTransactions,
    proof_of,
)
from tenantcron.store.schema.handler_roles import HandlerRoleError, Login
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import AsyncTransaction, Transaction
from tenantcron.targets.python.isolation.orders import Ask, Portable

# Modules that a process needs for its first transaction; the fork server preloads them.
WARM: Final = (__name__, "psycopg", "sqlalchemy.dialects.postgresql.psycopg")
_CONNECTIONS_OF_PROCESS: Final = 5
# What the scheduler proves itself with. A service is a section of a file that may have a password.
_CREDENTIALS: Final = frozenset(
    {"user", "password", "passfile", "service", "sslcert", "sslkey", "sslpassword"}
)


@dataclass(frozen=True, slots=True)
class ScopedTransactions:
    """The transactions of one execution."""

    transactions: HandlerTransactions
    scope: HandlerScope

    def begin(self) -> AsyncTransaction:
        """Begin a transaction in the running event loop."""
        return self.transactions.begin(self.scope)

    def begin_plain(self) -> Transaction:
        """Begin a transaction in the current thread."""
        return self.transactions.begin_plain(self.scope)

    def portable(self) -> Portable:
        """Return how an isolated process opens the same transactions."""
        arguments: JsonObject = {
            "tenant": self.scope.tenant,
            "schema": self.scope.schema,
            "proof": self.scope.proof,
            "has_login": self.transactions.logins is not None,
            "target": {**self._target()},
        }
        return Portable(f"{__name__}:{in_process.__name__}", arguments)

    def _target(self) -> Mapping[str, str]:
        parameters = self.transactions.target.parameters
        if self.transactions.logins is None:
            return parameters
        return {name: parameters[name] for name in parameters if name not in _CREDENTIALS}

    async def login(self, *, repair: bool) -> dict[str, str]:
        """Return the login for an isolated process that requests it."""
        logins, tenant = self.transactions.logins, self.scope.tenant
        if logins is None:
            return {"error": "this process already has a login"}
        # Another process may have created tables since, which need grants.
        logins.forget(tenant)
        try:
            login = await logins.get(tenant, repair=repair)
        except DatabaseError as error:
            return {"error": str(error)}
        return {"user": login.user, "password": login.password}


@dataclass(frozen=True, slots=True)
class LoginsByAsking:
    """Logins in an isolated process, requested from its scheduler."""

    ask: Ask

    async def get(self, tenant: TenantId, *, repair: bool = False) -> Login:
        """Request the login."""
        return await asyncio.to_thread(self.get_plain, tenant, repair=repair)

    def get_plain(self, _: TenantId, *, repair: bool = False) -> Login:
        """Request the login from a plain thread."""
        answer = self.ask(repair=repair)
        if "error" in answer:
            raise HandlerRoleError(answer["error"])
        return Login(answer["user"], answer["password"])

    def forget(self, _: TenantId) -> None:
        """Do nothing, because nothing is cached."""


def in_process(
    arguments: JsonObject, actor: Actor, execution_id: UUID, ask: Ask
) -> ScopedTransactions:
    """Return the transactions of an execution in an isolated process, without connecting."""
    target = DatabaseTarget(cast("dict[str, str]", arguments["target"]))
    logins = LoginsByAsking(ask) if arguments["has_login"] else None
    scope = HandlerScope(
        TenantId(str(arguments["tenant"])),
        str(arguments["schema"]),
        Attribution(actor, execution_id),
        str(arguments["proof"]),
    )
    size = _CONNECTIONS_OF_PROCESS
    return ScopedTransactions(HandlerTransactions(target, logins, size, share=size), scope)


@dataclass(frozen=True, slots=True)
class HandlerConnections:
    """Makes the transactions of executions."""

    transactions: HandlerTransactions

    def __call__(self, claimed: Claimed) -> ScopedTransactions:
        """Return the transactions of one execution, without connecting.

        They are attributed to the claimed execution, not to the context: a handler may begin one in
        its own thread, where the context is empty.
        """
        who = Attribution(claimed.actor, claimed.id)
        scope = HandlerScope(claimed.tenant_id, claimed.schema_name, who, proof_of(claimed.lease))
        return ScopedTransactions(self.transactions, scope)
