"""The handler that sends invoices: `tenantcron run --handlers handlers` in this folder.

It needs privileges on the table of the shop: `GRANT SELECT, UPDATE ON orders TO PUBLIC`, or to the
role of the tenant's handlers.
"""

from sqlalchemy import text

from tenantcron import Execution, Fail, saga


@saga("send_invoice")
async def send_invoice(execution: Execution) -> None:
    """Send the invoice of an order once: a second attempt finds that it was sent."""
    order = execution.payload["order"]
    async with execution.connection() as connection:
        found = await connection.execute(
            text("SELECT invoice FROM public.orders WHERE id = :order FOR UPDATE"),
            {"order": order},
        )
        row = found.one_or_none()
        if row is None:
            raise Fail(f"there is no order {order}")
        if row.invoice is None:
            # Send it here; all attempts have the same id, which the receiver can remember.
            await connection.execute(
                text("UPDATE public.orders SET invoice = :execution WHERE id = :order"),
                {"execution": str(execution.id), "order": order},
            )
