"""The worker's side of completion by callback: heartbeats, and the end of an attempt.

    worker = CallbackWorker.of_headers(request.headers)
    with worker.working() as work:
        for number, page in enumerate(pages):
            work.raise_if_cancelled()
            work.progress(100 * number / len(pages))
            print(page)
        work.result = {"pages": len(pages)}

A thread sends heartbeats while the block runs. At its end the block reports `complete`; an
exception reports `fail` and propagates. A report that got no response is sent again, until the
attempt would be lost anyway: the server answers a repeated one with the recorded outcome.
`docs/targets-callback.md` has the protocol.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from threading import Event, Thread
from time import monotonic, sleep
from typing import Final, TypeVar

from tenantcron.client.blocking_client import Client
from tenantcron.client.calls import ApiCall, body_of, path_of
from tenantcron.client.errors import ProblemError, RequestError
from tenantcron.client.exchange import TIMEOUT
from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.service.responses.callbacks import HeartbeatResponse, ReportResponse

T = TypeVar("T")

_URL, _TOKEN, _HEARTBEAT = (
    "x-tenantcron-callback-url",
    "x-tenantcron-callback-token",
    "x-tenantcron-heartbeat",
)
# Three heartbeats in the time of one: two may fail.
_EVERY: Final = 1 / 3
# A call that gets no response must not delay the next heartbeat.
_CALL: Final = 1 / 4
# Between two tries of a report.
_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 5.0
# A silent delivery can be replaced for the last sixth of a heartbeat.
_TRY: Final = 1 / 15
_LONGEST_RETRY: Final = 3600
# The API is overloaded, or its database does not answer.
_BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_OTHER_DELIVERY: Final = "TC740"
# The attempt is over, or the token belongs to none.
_OVER: Final = (HTTPStatus.CONFLICT, HTTPStatus.UNAUTHORIZED)
_LONGEST_MESSAGE: Final = 2000
_LONGEST_TEXT: Final = 200

log = logging.getLogger(__name__)


class WorkCancelled(Exception):  # noqa: N818 -- an order to stop, not an error
    """The attempt is over, or has to stop; the text is the reason."""


def heartbeat(
    execution: str,
    progress: int | None = None,
    progress_text: str | None = None,
    delivery: str | None = None,
) -> ApiCall[HeartbeatResponse]:
    """Renew the lease of an attempt."""
    body = body_of(progress=progress, progress_text=progress_text, delivery=delivery)
    return ApiCall("POST", _path(execution, "heartbeat"), HeartbeatResponse, body=body)


def complete(
    execution: str,
    result: JsonValue = None,
    progress: int | None = None,
    progress_text: str | None = None,
) -> ApiCall[ReportResponse]:
    """Report that the work of an attempt is done."""
    given: JsonObject = {} if result is None else {"result": result}
    body = {**body_of(progress=progress, progress_text=progress_text), **given}
    return ApiCall("POST", _path(execution, "complete"), ReportResponse, body=body)


def fail(
    execution: str,
    message: str,
    *,
    retryable: bool = True,
    retry_after: int | None = None,
    progress: int | None = None,
    progress_text: str | None = None,
    delivery: str | None = None,
) -> ApiCall[ReportResponse]:
    """Report that the work of an attempt failed."""
    body = body_of(
        message=_sendable(message)[:_LONGEST_MESSAGE] or "failed",
        retryable=retryable,
        retry_after=retry_after,
        progress=progress,
        progress_text=progress_text,
        delivery=delivery,
    )
    return ApiCall("POST", _path(execution, "fail"), ReportResponse, body=body)


def _is_invalid(problem: ProblemError) -> bool:
    """Whether the server refuses the values of a report, so that it is of no use to repeat it."""
    return 400 <= problem.status < 500 and problem.status not in (*_OVER, *_BUSY)


def _sendable(text: str) -> str:
    """Replace unpaired surrogates, which UTF-8 does not have."""
    return str(text).encode(errors="replace").decode()


def _path(execution: str, action: str) -> str:
    return path_of("executions", f"{execution}:{action}")


@dataclass(frozen=True, slots=True)
class CallbackAddress:
    """Where and how to report on an attempt, from the headers of its request."""

    server: str
    execution: str
    token: str = field(repr=False)
    # Seconds.
    heartbeat: float

    @classmethod
    def of_headers(cls, headers: Mapping[str, str]) -> "CallbackAddress":
        """Read the headers of a request; raise a UsageError if it expects no callback."""
        given = {name.lower(): text for name, text in headers.items()}
        missing = [name for name in (_URL, _TOKEN, _HEARTBEAT) if not given.get(name)]
        server, _, execution = given.get(_URL, "").rpartition("/v1/executions/")
        if missing or not server:
            names = ", ".join(missing or [_URL])
            raise UsageError(
                f"the request has no valid {names}: its target needs `completion: callback`"
            )
        return cls(server, execution, given[_TOKEN], float(given[_HEARTBEAT]))


class AttemptWork:
    """The work of one attempt; any thread may report its progress."""

    def __init__(self) -> None:
        self.result: JsonValue = None
        self._percent: int | None = None
        self._text: str | None = None
        self._cancelled: str | None = None
        self._is_over = False
        self._has_other_delivery = False

    def progress(self, percent: float, text: str | None = None) -> None:
        """Set the progress that the next heartbeat reports, rounded and cut to what is accepted."""
        self._percent = round(min(100, max(0, percent)))
        self._text = None if text is None else _sendable(text)[:_LONGEST_TEXT]

    @property
    def final_progress(self) -> int | None:
        """The progress of work that is done: 100, if it has reported any."""
        return None if self._percent is None else 100

    @property
    def cancelled(self) -> bool:
        """Whether to stop: the attempt was cancelled, has timed out, or is lost."""
        return self._cancelled is not None

    @property
    def reason(self) -> str | None:
        """Why it has to stop; None: it does not."""
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        """Raise WorkCancelled if the work has to stop."""
        if self._cancelled is not None:
            raise WorkCancelled(self._cancelled)

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended, so that no report on it is accepted."""
        return self._is_over

    def cancel(self, reason: str) -> None:
        """Have the work stop."""
        self._cancelled = reason

    @property
    def has_other_delivery(self) -> bool:
        """Whether it is over because another worker has the attempt."""
        return self._has_other_delivery

    def end(self, reason: str, *, other_delivery: bool = False) -> None:
        """Have the work stop, because the attempt is over."""
        self._is_over, self._has_other_delivery = True, other_delivery
        self.cancel(reason)

    def beat(self, execution: str, delivery: str | None = None) -> ApiCall[HeartbeatResponse]:
        """Return the next heartbeat."""
        return heartbeat(execution, self._percent, self._text, delivery)

    def forget_progress(self) -> None:
        """Drop the progress, because the server has refused it."""
        self._percent = self._text = None


class CallbackWorker:
    """Reports on one attempt.

    If a broker can deliver the request again while it is worked on, `delivery` is any text that is
    unique to this delivery. Then only one of the workers runs.
    """

    def __init__(self, address: CallbackAddress, delivery: str | None = None) -> None:
        self.address = address
        self.delivery = delivery

    @classmethod
    def of_headers(
        cls, headers: Mapping[str, str], delivery: str | None = None
    ) -> "CallbackWorker":
        """Return the worker of a request; raise a UsageError if it expects no callback."""
        return cls(CallbackAddress.of_headers(headers), delivery)

    def complete(
        self,
        result: JsonValue = None,
        progress: int | None = None,
        progress_text: str | None = None,
    ) -> ReportResponse:
        """Report that the work is done."""
        return self._report(complete(self.address.execution, result, progress, progress_text))

    def fail(
        self,
        message: str,
        *,
        retryable: bool = True,
        retry_after: int | None = None,
        progress: int | None = None,
        progress_text: str | None = None,
    ) -> ReportResponse:
        """Report that the work failed."""
        return self._report(
            fail(
                self.address.execution,
                message,
                retryable=retryable,
                retry_after=retry_after,
                progress=progress,
                progress_text=progress_text,
                delivery=self.delivery,
            )
        )

    def heartbeat(self, work: AttemptWork) -> bool:
        """Send a heartbeat; cancel the work if the server says so, or if the attempt is over.

        Returns whether the server has answered. If not, the next one comes before the lease ends.
        """
        try:
            try:
                answer = self._sent(work.beat(self.address.execution, self.delivery))
            except ProblemError as problem:
                if not _is_invalid(problem):
                    raise
                # A heartbeat without the refused values still renews the lease.
                log.warning("a heartbeat was refused, progress is dropped: %s", problem.detail)
                work.forget_progress()
                answer = self._sent(heartbeat(self.address.execution, delivery=self.delivery))
        except ProblemError as problem:
            is_over = problem.status in _OVER
            if is_over:
                work.end(problem.detail, other_delivery=problem.code == _OTHER_DELIVERY)
            else:
                log.warning("a heartbeat was refused: %s", problem.detail)
            return is_over
        except RequestError as error:
            log.warning("a heartbeat failed: %s", error)
            return False
        if answer["cancel"]:
            work.cancel(answer["reason"] or "cancelled")
        return True

    def begin(self) -> AttemptWork | None:
        """Send the first heartbeat, again if it is not answered; None if the server is silent.

        While another delivery of the request is worked on, it waits to take over. If that worker
        lives, the returned work is over.
        """
        work: AttemptWork | None = None
        for _ in self._tries():
            tried = AttemptWork()
            if not self.heartbeat(tried):
                continue
            if not tried.has_other_delivery:
                return tried
            if work is None:
                log.warning("waiting for another worker to be silent: %s", tried.reason)
            work = tried
        return work

    @contextmanager
    def working(self, begun: AttemptWork | None = None) -> Iterator[AttemptWork]:
        """Send heartbeats during the block, the first one unless it was sent; report its end."""
        work, stop = begun or AttemptWork(), Event()
        beat = partial(self._beat, work, stop, 0.0 if begun is None else _EVERY)
        Thread(target=beat, name="heartbeats", daemon=True).start()
        try:
            yield work
        except BaseException as error:
            stop.set()
            # Another worker may have the attempt, whose work has not failed.
            if not work.is_over:
                self._report_failure(error)
            raise
        stop.set()
        try:
            self.complete(work.result, work.final_progress)
        except ProblemError as problem:
            if not _is_invalid(problem):
                raise
            # The work is done: an attempt that is not completed is lost and repeated.
            log.warning("the result was refused and is dropped: %s", problem.detail)
            self.complete()

    def _beat(self, work: AttemptWork, stop: Event, first: float = 0.0) -> None:
        """Send heartbeats, the first one after this part of the longest time between two."""
        every = self.address.heartbeat * _EVERY
        due = monotonic() + self.address.heartbeat * first
        while not work.cancelled and not stop.wait(max(0.0, due - monotonic())):
            # From the start of the last one, because that may have waited for a response.
            due = monotonic() + every
            try:
                self.heartbeat(work)
            except Exception:
                log.exception("a heartbeat failed")

    def _report_failure(self, error: BaseException) -> None:
        # Handlers and workers raise the same class for work that must not be retried.
        from tenantcron.targets.signals import Fail, Retry  # noqa: PLC0415 -- only needed here

        message = str(error) or type(error).__name__
        after = error.after if isinstance(error, Retry) else None
        seconds = None if after is None else min(int(after.total_seconds()), _LONGEST_RETRY)
        try:
            self.fail(message, retryable=not isinstance(error, Fail), retry_after=seconds)
        except (ProblemError, RequestError) as unreported:
            error.add_note(f"the failure could not be reported: {unreported}")

    def _report(self, call: ApiCall[ReportResponse]) -> ReportResponse:
        """Send a report, again if its response was lost or the API was not available."""
        for _ in self._tries():
            try:
                return self._sent(call)
            except RequestError:
                continue
            except ProblemError as problem:
                if problem.status not in _BUSY:
                    raise
        return self._sent(call)

    def _tries(self) -> Iterator[None]:
        """Yield for each try, with growing pauses, until a heartbeat would be overdue."""
        until, wait = monotonic() + self.address.heartbeat, _FIRST_WAIT
        while True:
            yield
            if monotonic() + wait >= until:
                return
            sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT, self.address.heartbeat * _TRY)

    def _sent(self, call: ApiCall[T]) -> T:
        timeout = min(self.address.heartbeat * _CALL, TIMEOUT)
        address = self.address
        with Client(address.server, address.token, timeout=timeout, tries=1) as client:
            return client.send(call)
