"""A history written by the database: `set_actor` and the trigger of `schema.sql`.

python examples/audit/with_trigger.py [postgresql://…]
"""

from pathlib import Path
from uuid import UUID

from database import example_engine
from sqlalchemy import text

from tenantcron.actor.context import acting_as, correlation
from tenantcron.actor.model import Actor, ActorType
from tenantcron.actor.tables import set_actor

SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


def main() -> None:
    """Change rows with plain SQL and show the history."""
    with example_engine() as engine:
        with engine.begin() as connection:
            connection.exec_driver_sql(SCHEMA)

        ada = Actor("ada", ActorType.HUMAN, "back-office")
        with acting_as(ada), correlation(UUID(int=1)), engine.begin() as connection:
            set_actor(connection)
            connection.execute(text("insert into invoice (customer, amount) values ('Acme', 120)"))
            connection.execute(text("update invoice set amount = 100"))

        # The same pooled connection: the actor is not set any more.
        with engine.begin() as connection:
            connection.execute(text("delete from invoice"))

        with engine.connect() as connection:
            history = (
                "select operation, changed_by, correlation_id"
                " from audit_example_history.invoice order by id"
            )
            for operation, changed_by, correlation_id in connection.execute(text(history)):
                print(f"{operation}: {changed_by}, {correlation_id}")


if __name__ == "__main__":
    main()
