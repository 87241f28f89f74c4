"""What a child is given: the execution, and how it opens transactions."""

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
    """How another process opens the same transactions: by a function, `module:name`.

    The function gets the arguments, who acts, and how to ask the scheduler for the login, and
    returns `Transactions`. By its name, because what runs a handler does not know what stores.
    """

    function: str
    arguments: JsonObject


@runtime_checkable
class PortableTransactions(Protocol):
    """Transactions that another process can open, too."""

    def portable(self) -> Portable:
        """Return how."""

    async def login(self, *, repair: bool) -> dict[str, str]:
        """Return what the other process logs in with, or the error."""


class Ask(Protocol):
    """Asks the scheduler for the login; with `repair`, because the last one was refused."""

    def __call__(self, *, repair: bool) -> dict[str, str]:
        """Return it, or the error."""


Opens = Callable[[JsonObject, Actor, UUID, Ask], Transactions]


class ExecutionDocument(TypedDict):
    """An execution as JSON has it."""

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


class Order(NamedTuple):
    """One attempt for a child to run."""

    execution: ExecutionDocument
    transactions: Portable | None
    # Bytes that the handler may allocate.
    memory: int | None


def order_of(execution: Execution, memory: int | None) -> Order:
    """Return what a child needs to run an execution."""
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
    return Order(document, portable, memory)


def encode(order: Order) -> bytes:
    """Return an order as a line."""
    return json.dumps(order).encode() + b"\n"


def decode(line: bytes) -> Order:
    """Read an order; it comes from the scheduler, so it is one."""
    execution, transactions, memory = json.loads(line)
    return Order(execution, None if transactions is None else Portable(*transactions), memory)


def execution_of(order: Order, tokens: Tokens, ask: Ask, cancellation: Cancellation) -> Execution:
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


def _opened(order: Order, actor: Actor, execution_id: UUID, ask: Ask) -> Transactions:
    if order.transactions is None:
        raise RuntimeError("this execution was given no transactions")
    opens = cast("Opens", named(order.transactions.function))
    return opens(order.transactions.arguments, actor, execution_id, ask)


def named(address: str) -> object:
    """Return what `module:name` names."""
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)


def import_all(modules: list[str]) -> None:
    """Import modules for what they do to a process, which is to be warm."""
    for module in modules:
        import_module(module)
