"""The adapter of Temporal targets: start or find a workflow, and wait for its end."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID, uuid4

from tenantcron.core.egress import Url
from tenantcron.core.errors import UsageError
from tenantcron.core.requirements import TargetKind
from tenantcron.core.settings import Settings
from tenantcron.core.targets import OtherTarget, Target
from tenantcron.core.temporal_targets import (
    TemporalTarget,
    read_temporal_target,
    refused_option,
)
from tenantcron.core.values import JsonValue
from tenantcron.targets.contract import Delivered, RunnerServices, TargetCall
from tenantcron.targets.extras import require_library
from tenantcron.targets.minting import mint_token
from tenantcron.targets.output import keep_result
from tenantcron.targets.responses import FailCall

# A scheduler without Temporal targets never loads the library, and may not have it.
if TYPE_CHECKING:
    from tenantcron.targets.temporal.connecting import TemporalServer
    from tenantcron.targets.temporal.outcomes import Ended
    from tenantcron.targets.temporal.workflows import Workflow


class MakeWorkflow(Protocol):
    """Makes the workflow of an attempt, which is not started yet."""

    def __call__(
        self, call: TargetCall, target: TemporalTarget, token: str | None, /
    ) -> "Workflow":
        """Return the workflow, whose input has the token."""


# Cancels the workflow with an id in a namespace, for a request id.
CancelWorkflow = Callable[[str, str, str], Awaitable[bool]]


class TemporalRunner:
    """Runs attempts as workflows."""

    def __init__(
        self, server: "TemporalServer", make_workflow: MakeWorkflow, cancel: CancelWorkflow
    ) -> None:
        self._server = server
        self._make_workflow = make_workflow
        self._cancel = cancel

    async def run(self, call: TargetCall) -> Delivered:
        """Return when the workflow has succeeded."""
        target = _allowed(call)
        workflow = self._make_workflow(call, target, await _token(call, target))
        try:
            ended = await _end_of(workflow)
        except asyncio.CancelledError:
            if call.interrupted:
                workflow.leave()
            else:
                await workflow.cancel()
            raise
        if ended.failure is not None:
            raise ended.failure
        keep_result(ended.result)
        return Delivered.DONE

    async def stop_left(self, execution: UUID, target: Target) -> bool:
        """Cancel the workflow of an ended execution, if there is one and it is open."""
        read = read_temporal_target(target.options) if isinstance(target, OtherTarget) else None
        if read is None:
            return True
        # A new id, because a retry of the execution can be cancelled as well.
        return await self._cancel(read.namespace, str(execution), str(uuid4()))

    async def close(self) -> None:
        """Close the connection."""
        await self._server.close()


async def _end_of(workflow: "Workflow") -> "Ended":
    """Start or find the workflow, and wait for its end."""
    run = await workflow.start()
    if not run.is_new and await workflow.is_cancelling(run):
        ended = await workflow.end(run)
        if ended.failure is None:
            return ended
        # An earlier attempt has timed out, and its workflow has cleaned up.
        run = await workflow.start()
    return await workflow.end(run)


def _allowed(call: TargetCall) -> TemporalTarget:
    """Read the target; check the policy again, because the stored definition can be edited."""
    options = call.target.options if isinstance(call.target, OtherTarget) else {}
    target = read_temporal_target(options)
    if target is None:
        raise FailCall("the options of the Temporal target are invalid: apply its manifest again")
    if refused_option(target, call.allowed_temporal_workflows) is not None:
        raise FailCall(
            f"{target.entry} may not be started: the platform team can add it to "
            "allowed_temporal_workflows in the [policy] table"
        )
    return target


async def _token(call: TargetCall, target: TemporalTarget) -> str | None:
    if target.auth is None:
        return None
    return await mint_token(call.tokens, target.audience, target.origin, call.allowed_audiences)


class TemporalAdapter:
    """The kind `temporal`."""

    # The model in `manifests/language/models.py` has the schema.
    options_schema: Final[Mapping[str, JsonValue]] = {}

    def open(self, services: RunnerServices) -> TemporalRunner:
        """Return the runner, which connects when it has something to start."""
        require_library(TargetKind.TEMPORAL)
        address = _checked_address(services.settings)
        from tenantcron.targets.temporal.connecting import TemporalServer  # noqa: PLC0415 -- extra
        from tenantcron.targets.temporal.workflows import (  # noqa: PLC0415 -- as above
            Workflow,
            cancel_workflow,
        )

        server = TemporalServer(address, services.settings)
        return TemporalRunner(server, partial(Workflow, server), partial(cancel_workflow, server))


def _checked_address(settings: Settings) -> Url:
    """Return the address; raise a UsageError if the settings do not fit together."""
    address = settings.temporal_address
    if address is None:
        raise UsageError(
            "temporal targets need the setting temporal_address: host:port of the Temporal server. "
            "To serve no temporal targets, use --targets"
        )
    credentials = (settings.temporal_api_key, settings.temporal_certificate, settings.temporal_key)
    if address.scheme == "http" and any(credentials):
        raise UsageError(
            "temporal_address: credentials need TLS. Remove http:// from the address, or remove "
            "temporal_api_key, temporal_certificate and temporal_key"
        )
    if (settings.temporal_certificate is None) != (settings.temporal_key is None):
        raise UsageError("set temporal_certificate and temporal_key together")
    return address
