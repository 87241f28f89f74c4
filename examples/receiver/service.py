"""A service that executions call: it verifies tokens, and does each piece of work once.

    BILLING_DATABASE_URL=postgresql://… BILLING_KEYS=https://cron.internal/.well-known/jwks.json \\
        uvicorn --app-dir examples/receiver --factory service:create_app

`BILLING_KEYS` is the URL of a key set, or a file with the output of `tenantcron keys jwks`. With
`BILLING_INTROSPECT=https://cron.internal/v1/tokens:introspect` the service also rejects tokens of
executions that have ended.
"""

import json
import os
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import Connection, Engine, create_engine, make_url, text

from tenantcron.actor.context import acting_as, correlation
from tenantcron.actor.introspection import Introspection
from tenantcron.actor.key_sets import FetchedKeys, FixedKeys, KeySet
from tenantcron.actor.receiving import ProofOfExecution
from tenantcron.actor.tables import set_actor
from tenantcron.actor.verification import Proof, Verifier

AUDIENCE = "https://billing.internal"

SCHEMA = """
create table if not exists received (
    tenant text, idempotency_key text, amount integer not null,
    primary key (tenant, idempotency_key)
);
create table if not exists charge (
    id bigint generated always as identity primary key,
    tenant text not null, amount integer not null,
    charged_by text not null default current_setting('tenantcron.actor'),
    authenticated boolean not null default current_setting('tenantcron.authenticated')::boolean,
    execution uuid not null default current_setting('tenantcron.correlation_id')::uuid
);
"""
# A concurrent request waits here until the first one has committed, and then finds its row.
RECEIVE = text(
    "insert into received values (:tenant, :key, :amount) on conflict do nothing returning true"
)
RECEIVED = text("select amount from received where tenant = :tenant and idempotency_key = :key")
CHARGE = text("insert into charge (tenant, amount) values (:tenant, :amount)")


class Charge(BaseModel):
    """The request."""

    amount: int = Field(gt=0)


class Delivered(BaseModel):
    """The part of an HTTP target request that this service uses."""

    payload: Charge


class Charged(BaseModel):
    """The result, of this or an earlier request."""

    tenant: str
    amount: int
    execution: UUID
    repeated: bool


def create_app() -> FastAPI:
    """Create the application."""
    engine = _engine(os.environ["BILLING_DATABASE_URL"])
    issuer = os.environ.get("BILLING_ISSUER", "tenantcron")
    introspect = os.environ.get("BILLING_INTROSPECT")
    verifier = Verifier(
        keys=_keys(os.environ["BILLING_KEYS"]),
        issuer=issuer,
        audience=AUDIENCE,
        introspection=Introspection(introspect) if introspect else None,
    )
    prove = ProofOfExecution(verifier)
    app = FastAPI(title="Billing")

    @app.post("/tenants/{tenant}/charges")
    def charge(
        tenant: str,
        wanted: Charge,
        proof: Annotated[Proof, Depends(prove)],
        idempotency_key: Annotated[str, Header(min_length=1, max_length=255)],
    ) -> Charged:
        return _charge(engine, proof, tenant, idempotency_key, wanted)

    # As an HTTP target: `http: {url: …/tenants/acme/run, auth: {execution_token: {audience: …}}}`.
    @app.post("/tenants/{tenant}/run")
    def run(
        tenant: str,
        delivered: Delivered,
        proof: Annotated[Proof, Depends(prove)],
        idempotency_key: Annotated[str, Header(min_length=1, max_length=255)],
    ) -> Charged:
        return _charge(engine, proof, tenant, idempotency_key, delivered.payload)

    return app


def _charge(engine: Engine, proof: Proof, tenant: str, key: str, wanted: Charge) -> Charged:
    """Charge on behalf of the authenticated actor, once for each key."""
    with acting_as(proof.actor), correlation(proof.execution), engine.begin() as connection:
        set_actor(connection)
        is_new = _receive(connection, tenant, key, wanted.amount)
        if is_new:
            connection.execute(CHARGE, {"tenant": tenant, "amount": wanted.amount})
    return Charged(
        tenant=tenant, amount=wanted.amount, execution=proof.execution, repeated=not is_new
    )


def _receive(connection: Connection, tenant: str, key: str, amount: int) -> bool:
    """Return whether the key is new; it is stored in the same transaction as the charge."""
    values = {"tenant": tenant, "key": key, "amount": amount}
    if connection.execute(RECEIVE, values).scalar_one_or_none():
        return True
    if connection.execute(RECEIVED, values).scalar_one() != amount:
        raise HTTPException(422, "this Idempotency-Key was used for a different request")
    return False


def _engine(url: str) -> Engine:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql(SCHEMA)
    return engine


def _keys(location: str) -> KeySet:
    if location.startswith(("https://", "http://")):
        return FetchedKeys(location)
    return FixedKeys(json.loads(Path(location).read_text(encoding="utf-8")))
