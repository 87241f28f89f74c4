"""Rows that store who changed them last: the mixin `Attributed`.

python examples/audit/with_mixin.py [postgresql://…]
"""

from uuid import UUID

from database import example_engine
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tenantcron.actor.context import acting_as, acting_for_user, correlation
from tenantcron.actor.model import Actor, ActorType
from tenantcron.actor.tables import Attributed


class Base(DeclarativeBase):
    """The declarative base of the example."""


class Invoice(Attributed, Base):
    """An invoice, with `changed_by` and `correlation_id` from the mixin."""

    __tablename__ = "invoice"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    paid: Mapped[bool] = mapped_column(default=False)


def main() -> None:
    """Change one row in three ways and show the actor."""
    with example_engine() as engine:
        Base.metadata.create_all(engine)

        ada = Actor("ada", ActorType.HUMAN, "back-office")
        with acting_as(ada), correlation(UUID(int=1)), Session(engine) as session:
            session.add(Invoice(customer="Acme"))
            session.commit()
        show("a flush", engine)

        with acting_for_user("grace"), engine.begin() as connection:
            connection.execute(update(Invoice).values(paid=True))
        show("a statement", engine)

        with Session(engine) as session:
            session.scalars(select(Invoice)).one().customer = "Acme Energy"
            session.commit()
        show("no actor", engine)


def show(how: str, engine: Engine) -> None:
    """Print who changed the invoice last."""
    with Session(engine) as session:
        invoice = session.scalars(select(Invoice)).one()
        print(f"{how}: {invoice.changed_by}, {invoice.correlation_id}")


if __name__ == "__main__":
    main()
