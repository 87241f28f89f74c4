"""A client of the REST API.

    from tenantcron.client import Client, executions

    with Client("https://cron.internal", token) as cron:
        for execution in cron.each(executions.list_all(tenant="acme", states=["DEAD"])):
            cron.send(executions.retry(execution["id"]))

A request is data: the functions of `executions`, `schedules`, `tenants` and the other modules
return an `ApiCall`, which knows the type of its response. `Client` and `AsyncClient` send calls;
both use the same exchange (`tenantcron.client.exchange`). It imports no database driver.
"""

from tenantcron.client.async_client import AsyncClient
from tenantcron.client.blocking_client import Client
from tenantcron.client.calls import ApiCall, ListCall
from tenantcron.client.errors import ProblemError, RequestError

__all__ = ["ApiCall", "AsyncClient", "Client", "ListCall", "ProblemError", "RequestError"]
