"""The adapter of HTTP targets: one request to a service for each attempt."""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from tenantcron.core.targets import HttpTarget
from tenantcron.core.values import JsonValue
from tenantcron.targets.contract import Delivered, RunnerServices, TargetCall
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.requests import CallbackHeaders, TargetRequest
from tenantcron.targets.responses import FailCall


class HttpRunner:
    """Calls HTTP targets."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def run(self, call: TargetCall) -> Delivered:
        """Call the service once."""
        target = call.target
        if not isinstance(target, HttpTarget):
            raise FailCall("the target is not an HTTP target: apply its manifest again")
        callback = None if target.heartbeat is None else await _handed_over(call, target.heartbeat)
        request = TargetRequest(
            url=target.url,
            method=target.method,
            headers=target.headers,
            auth=target.auth,
            key=call.key,
            started_at=call.started_at,
            timeout=call.timeout,
            egress=call.egress,
            allowed_secrets=call.allowed_secrets,
            allowed_audiences=call.allowed_audiences,
            tokens=call.tokens,
            callback=callback,
        )
        await self._client.call(request, call.execution, call.answer)
        accepted = callback is not None and call.answer.status == HTTPStatus.ACCEPTED
        return Delivered.ACCEPTED if accepted else Delivered.DONE

    async def close(self) -> None:
        """Leave the client open: the replica closes it."""


async def _handed_over(call: TargetCall, heartbeat: timedelta) -> CallbackHeaders:
    if call.hand_over is None:
        raise FailCall("this scheduler cannot hand attempts over to remote workers")
    callback = await call.hand_over(heartbeat)
    return CallbackHeaders(callback.url, callback.token, callback.heartbeat, callback.deadline)


class HttpAdapter:
    """The kind `http`."""

    # The model in `manifests/language/models.py` has the schema.
    options_schema: Final[Mapping[str, JsonValue]] = {}

    def open(self, services: RunnerServices) -> HttpRunner:
        """Return the runner, which uses the client of the replica."""
        return HttpRunner(services.http)
