"""Calls of HTTP targets: a caller, a request, and the result."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from support.services import (
    Behaviour,
    Service,
)

from tenantcron.actor.model import scheduler_actor
from tenantcron.core.egress import Egress
from tenantcron.core.names import SagaName, ScheduleName, TenantId
from tenantcron.core.values import JsonObject
from tenantcron.targets.execution import AsyncTransaction, Execution, Transaction
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.requests import TargetRequest
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.signals import Fail, Retry
from tenantcron.targets.tokens import TokenError

KEY = "sched:00000000-0000-0000-0000-000000000002:1763258400000"
ID = UUID("3f2a9c1e-6c0e-5b63-9d0e-3d1f0c3a7b54")
STARTED_AT = datetime(2026, 11, 16, 2, 0, 3, tzinfo=UTC)
NAME = "billing.test"
SECRET = "correct-horse-battery-staple"  # noqa: S105 -- a test's own
TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2lnbmF0dXJl"  # noqa: S105 -- likewise


class NoTransactions:
    """Transactions that are not used."""

    def begin(self) -> AsyncTransaction:
        """Fail."""
        raise NotImplementedError

    def begin_plain(self) -> Transaction:
        """Fail."""
        raise NotImplementedError


@dataclass(slots=True)
class FixedTokens:
    """Returns a fixed token, or none."""

    token: str | None = TOKEN
    audiences: list[str] = field(default_factory=list)

    async def mint(self, audience: str) -> str:
        """Return the token."""
        return self.mint_plain(audience)

    def mint_plain(self, audience: str) -> str:
        """Return the token."""
        self.audiences.append(audience)
        if self.token is None:
            raise TokenError("the tenant is suspended")
        return self.token


def an_execution(attempt: int = 1, payload: JsonObject | None = None) -> Execution:
    """Return an attempt of an execution."""
    return Execution(
        id=ID,
        tenant_id=TenantId("acme"),
        schedule_name=ScheduleName("nightly"),
        saga_name=SagaName("reconcile"),
        scheduled_for=datetime(2026, 11, 16, 2, 0, tzinfo=UTC),
        attempt=attempt,
        payload={"report": "monthly", "b": [1.5, "ü"]} if payload is None else payload,
        deadline=STARTED_AT + timedelta(minutes=5),
        actor=scheduler_actor("billing"),
        _transactions=NoTransactions(),
    )


def a_request(url: str, **fields: object) -> TargetRequest:
    """Return the request of an attempt."""
    values: dict[str, object] = {
        "url": url,
        "method": "POST",
        "headers": {},
        "auth": None,
        "key": KEY,
        "started_at": STARTED_AT,
        "timeout": timedelta(seconds=5),
        "allowed_secrets": ("env:BILLING_*", "file:/*"),
    }
    return TargetRequest(**{**values, **fields})  # type: ignore[arg-type] # as given


def egress_to(port: int, *hosts: str) -> Egress:
    """Allow calls of services on this machine, at one port."""
    return Egress(
        hosts=("http://127.0.0.1", f"http://{NAME}", NAME, *hosts),
        networks=("127.0.0.0/8",),
        ports=(port,),
    )


def resolving(*answers: Sequence[str]) -> Callable[[str], object]:
    """Return a resolver that returns one answer after the other, and records its calls."""

    async def resolve(host: str) -> Sequence[str]:
        resolve.asked.append(host)  # type: ignore[attr-defined] # a function that remembers
        return answers[min(len(resolve.asked), len(answers)) - 1]  # type: ignore[attr-defined] # as above

    resolve.asked = []  # type: ignore[attr-defined] # as above
    return resolve


@asynccontextmanager
async def calling(port: int, **options: object) -> AsyncIterator[HttpClient]:
    """Provide a caller for the duration of the block."""
    egress = options.pop("egress", egress_to(port))
    caller = HttpClient(egress, **options)  # type: ignore[arg-type] # as given
    try:
        yield caller
    finally:
        await caller.close()


@dataclass(slots=True)
class Ended:
    """The result of a call."""

    answer: ServiceResponse
    error: BaseException | None = None

    @property
    def reason(self) -> str:
        """The reason of a failure."""
        assert isinstance(self.error, Retry | Fail)
        return self.error.reason


async def called(at: Service, behaviour: Behaviour | None = None, **fields: object) -> Ended:
    """Call a service once."""
    if behaviour is not None:
        at.behaviour = behaviour
    path = fields.pop("path", "/run")
    async with calling(at.port) as caller:
        return await ended(caller, a_request(f"{at.url}{path}", **fields))


async def ended(
    caller: HttpClient, request: TargetRequest, execution: Execution | None = None
) -> Ended:
    """Make a call, and return its result."""
    end = Ended(ServiceResponse())
    try:
        await caller.call(request, execution or an_execution(), end.answer)
    except (Retry, Fail) as error:
        end.error = error
    return end
