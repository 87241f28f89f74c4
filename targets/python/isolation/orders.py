"""Orders for a child: the execution, and how to open transactions."""

import json
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from typing import NamedTuple, Protocol, TypedDict, cast, runtime_checkable
from uuid import UUID

from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.names import Owner, SagaName, ScheduleName, TenantId
from tenantcron.core.values import JsonObject
from tenantcron.targets.execution import Cancellation, Execution, Transactions
from tenantcron.targets.tokens import Tokens


class Portable(NamedTuple):
    """How another process opens the same transactions: with a function, `module:name`.

    The function receives the arguments, the actor, and a callable that requests the login from the
    scheduler. It returns `Transactions`. It is a name, because `targets` does not import `store`.
    """

    function: str
    arguments: JsonObject


@runtime_checkable
class PortableTransactions(Protocol):
    """Transactions that another process can also open."""

    def portable(self) -> Portable:
        """Return how another process opens them."""

    async def login(self, *, repair: bool) -> dict[str, str]:
        """Return the login of the other process, or the error."""


class Ask(Protocol):
    """Requests the login from the scheduler; `repair` if the database rejected the last one."""

    def __call__(self, *, repair: bool) -> dict[str, str]:
        """Return the login, or the error."""


Opens = Callable[[JsonObject, Actor, UUID, Ask], Transactions]


class ExecutionDocument(TypedDict):
    """An execution as JSON."""

    id: str
    tenant_id: str
    schedule_name: str
    saga_name: str
    scheduled_for: str
    attempt: int
    payload: JsonObject
    deadline: str
    actor: tuple[str, str, str]
    owner: str | None


class AttemptOrder(NamedTuple):
    """One attempt for a child to run."""

    execution: ExecutionDocument
    transactions: Portable | None
    # Bytes that the handler may allocate.
    memory: int | None


def order_of(execution: Execution, memory: int | None) -> AttemptOrder:
    """Build the order for an execution."""
    transactions = execution._transactions
    portable = transactions.portable() if isinstance(transactions, PortableTransactions) else None
    actor = execution.actor
    document = ExecutionDocument(
        id=str(execution.id),
        tenant_id=execution.tenant_id,
        schedule_name=execution.schedule_name,
        saga_name=execution.saga_name,
        scheduled_for=execution.scheduled_for.isoformat(),
        attempt=execution.attempt,
        payload=execution.payload,
        deadline=execution.deadline.isoformat(),
        actor=(actor.id, actor.type.value, actor.source),
        owner=execution.owner,
    )
    return AttemptOrder(document, portable, memory)


def encode(order: AttemptOrder) -> bytes:
    """Encode an order as a line."""
    return json.dumps(order).encode() + b"\n"


def decode(line: bytes) -> AttemptOrder:
    """Decode an order; it comes from the scheduler, so it is valid."""
    execution, transactions, memory = json.loads(line)
    return AttemptOrder(
        execution, None if transactions is None else Portable(*transactions), memory
    )


def execution_of(
    order: AttemptOrder, tokens: Tokens, ask: Ask, cancellation: Cancellation
) -> Execution:
    """Return the execution as the handler sees it."""
    document = order.execution
    actor_id, actor_type, source = document["actor"]
    actor, execution_id = Actor(actor_id, ActorType(actor_type), source), UUID(document["id"])
    owner = document["owner"]
    return Execution(
        id=execution_id,
        tenant_id=TenantId(document["tenant_id"]),
        schedule_name=ScheduleName(document["schedule_name"]),
        saga_name=SagaName(document["saga_name"]),
        scheduled_for=datetime.fromisoformat(document["scheduled_for"]),
        attempt=document["attempt"],
        payload=document["payload"],
        deadline=datetime.fromisoformat(document["deadline"]),
        actor=actor,
        owner=None if owner is None else Owner(owner),
        _transactions=_opened(order, actor, execution_id, ask),
        _tokens=tokens,
        _cancellation=cancellation,
    )


def _opened(order: AttemptOrder, actor: Actor, execution_id: UUID, ask: Ask) -> Transactions:
    if order.transactions is None:
        raise RuntimeError("this execution has no transactions")
    opens = cast("Opens", named(order.transactions.function))
    return opens(order.transactions.arguments, actor, execution_id, ask)


def named(address: str) -> object:
    """Import the object with the address `module:name`."""
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)


def import_all(modules: list[str]) -> None:
    """Import modules, so that forked children have them loaded."""
    for module in modules:
        import_module(module)
