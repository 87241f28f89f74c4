"""A shop that stores an order and the task for its invoice in one transaction.

`python service.py URL ORDER [CENTS]` places an order. An order of a negative amount is rejected,
together with its task. Placing the same order again changes nothing.
"""

import sys
from datetime import timedelta

from sqlalchemy import CheckConstraint, String, create_engine
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import tenantcron

TENANT = "acme"
# A customer can withdraw the order for so long.
GRACE = timedelta(seconds=1)


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    """An order; its amount is positive."""

    __tablename__ = "orders"
    __table_args__ = (CheckConstraint("cents > 0", name="orders_cents_check"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    cents: Mapped[int]
    # The execution that sent its invoice.
    invoice: Mapped[str | None] = mapped_column(String(64))


def place(session: Session, number: int, cents: int) -> str:
    """Add an order and the task that sends its invoice; both exist, or neither does."""
    task = tenantcron.submit(
        session,
        tenant=TENANT,
        saga="send_invoice",
        payload={"order": number},
        delay=GRACE,
        # If the customer sends the order twice, the second task is the first one.
        idempotency_key=f"invoice-{number}",
    )
    session.execute(insert(Order).values(id=number, cents=cents).on_conflict_do_nothing())
    return str(task.id)


def main(url: str, number: int, cents: int) -> None:
    """Place an order."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        task = place(session, number, cents)
    print(f"order {number} is stored, task {task} sends its invoice")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 995)
