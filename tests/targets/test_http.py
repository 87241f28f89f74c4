"""Calls of HTTP targets, with real services: the request, the outcome, the stored response."""

import asyncio
import gzip
import json
import re
from asyncio import StreamWriter
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic

import pytest
from support.calls import (
    ID,
    KEY,
    NAME,
    Ended,
    a_request,
    an_execution,
    called,
    calling,
    ended,
    resolving,
)
from support.patience import PATIENCE
from support.services import (
    LOOPBACK,
    Behaviour,
    Received,
    Service,
    answering,
    forever,
    service,
    writing,
)

from tenantcron.core.names import Owner
from tenantcron.core.values import JsonObject
from tenantcron.targets.responses import LONGEST_RESPONSE, ServiceResponse
from tenantcron.targets.signals import Fail, Retry


async def test_the_request_describes_the_execution(target: Service) -> None:
    end = await called(target, headers={"X-Team": "billing"}, path="/run?month=12")

    assert end == Ended(ServiceResponse(200, ""))
    request = target.only
    assert (request.method, request.target) == ("POST", "/run?month=12")
    span = re.fullmatch(f"00-{ID.hex}-([0-9a-f]{{16}})-01", request.headers["traceparent"])
    assert span
    assert {name: request.headers[name] for name in request.headers if name != "traceparent"} == {
        "host": f"127.0.0.1:{target.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "user-agent": "tenantcron",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "idempotency-key": KEY,
        "x-team": "billing",
        "x-tenantcron-fence": "1",
        "x-tenantcron-execution": str(ID),
        "x-tenantcron-tenant": "acme",
        "x-tenantcron-schedule": "nightly",
        "x-tenantcron-saga": "reconcile",
        "x-tenantcron-scheduled-for": "2026-11-16T02:00:00+00:00",
        "x-tenantcron-attempt": "1",
    }
    assert json.loads(request.body) == {
        "execution_id": str(ID),
        "tenant": "acme",
        "schedule": "nightly",
        "saga": "reconcile",
        "scheduled_for": "2026-11-16T02:00:00+00:00",
        "payload": {"report": "monthly", "b": [1.5, "ü"]},
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_the_method_is_that_of_the_target(target: Service, method: str) -> None:
    await called(target, method=method)
    assert target.only.method == method


async def test_attempts_share_the_body_the_key_and_the_trace_but_not_the_span(
    target: Service,
) -> None:
    async with calling(target.port) as caller:
        for attempt in (1, 2, 3):
            request = a_request(f"{target.url}/run")
            payload: JsonObject = {"b": 1, "a": 2} if attempt == 2 else {"a": 2, "b": 1}
            await ended(caller, request, an_execution(attempt, payload))

    first, *_ = received = target.received
    assert {request.body for request in received} == {first.body}
    assert {request.headers["idempotency-key"] for request in received} == {KEY}
    traces = [request.headers["traceparent"].split("-") for request in received]
    assert {trace[1] for trace in traces} == {ID.hex}
    assert len({trace[2] for trace in traces}) == 3
    assert [request.headers["x-tenantcron-attempt"] for request in received] == ["1", "2", "3"]
    assert [request.headers["x-tenantcron-fence"] for request in received] == ["1", "2", "3"]


async def test_the_owner_is_in_a_header_and_in_the_signed_body(target: Service) -> None:
    async with calling(target.port) as caller:
        of_maria = replace(an_execution(), owner=Owner("user:maria"))
        await ended(caller, a_request(target.url), of_maria)
    assert target.only.headers["x-tenantcron-owner"] == "user:maria"
    assert json.loads(target.only.body)["owner"] == "user:maria"


async def test_calls_share_a_connection(target: Service) -> None:
    async with calling(target.port) as caller:
        for _ in range(3):
            await ended(caller, a_request(f"{target.url}/run"))
    assert [request.connection for request in target.received] == [1, 1, 1]


async def test_a_reserved_header_that_was_edited_into_the_database_is_not_sent(
    target: Service,
) -> None:
    forged = {"x-tenantcron-tenant": "umbrella", "AUTHORIZATION": "x", "user-agent": "curl"}
    await called(target, headers=forged)
    assert target.only.headers["x-tenantcron-tenant"] == "acme"
    assert "authorization" not in target.only.headers
    assert target.only.headers["user-agent"] == "curl"


async def test_a_cookie_of_a_service_is_not_sent_with_the_next_call(
    target: Service,
) -> None:
    target.behaviour = answering(Set_Cookie="session=abc; Path=/")
    async with calling(target.port, resolve=resolving([LOOPBACK])) as caller:
        for _ in range(2):
            await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert all("cookie" not in request.headers for request in target.received)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_2xx_is_success(target: Service, status: int) -> None:
    end = await called(target, answering(status))
    assert (end.error, end.answer.status) == (None, status)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 501, 502, 503, 504, 599])
async def test_transient_errors_are_retried(target: Service, status: int) -> None:
    end = await called(target, answering(status, b"later"))
    assert isinstance(end.error, Retry)
    assert end.reason.startswith(f"the service answered {status}")
    assert end.answer == ServiceResponse(status, "later")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 418, 422, 451])
async def test_permanent_errors_are_not_retried(target: Service, status: int) -> None:
    end = await called(target, answering(status, b"never"))
    assert isinstance(end.error, Fail)
    assert end.reason.startswith(f"the service answered {status}")
    assert end.answer == ServiceResponse(status, "never")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304])
async def test_redirects_are_not_followed(target: Service, status: int) -> None:
    async with service() as elsewhere:
        location = f"{elsewhere.url}/other?token=hidden"
        end = await called(target, answering(status, Location=location))
        assert isinstance(end.error, Fail)
        assert end.reason.endswith(f" to {elsewhere.url}/other, and redirects are not followed")
        assert elsewhere.received == []


@dataclass(frozen=True)
class After:
    """A value of `Retry-After`, and the delay that it means."""

    text: str
    wait: timedelta | None
    date: str = ""


@pytest.mark.parametrize(
    "case",
    [
        After("5", timedelta(seconds=5)),
        After(" 60 ", timedelta(minutes=1)),
        After("3601", timedelta(hours=1)),
        After("9" * 4000, timedelta(hours=1)),
        After("Mon, 16 Nov 2026 02:00:33 GMT", timedelta(seconds=30)),
        After(
            "Mon, 16 Nov 2026 09:00:10 GMT", timedelta(seconds=10), "Mon, 16 Nov 2026 09:00:00 GMT"
        ),
        After("Tue, 17 Nov 2026 02:00:00 GMT", timedelta(hours=1)),
        After("Sun, 15 Nov 2026 02:00:00 GMT", None),
        After("Mon, 99 Nov 2026 02:00:33 GMT", None),
        After("0", None),
        After("-5", None),
        After("1.5", None),
        After("5, 6", None),
        After("soon", None),
        After("\u0665".encode().decode("latin-1"), None),
    ],
    ids=lambda case: case.text[:24],
)
async def test_a_valid_retry_after_is_honoured(target: Service, case: After) -> None:
    headers = {"Retry_After": case.text, **({"Date": case.date} if case.date else {})}
    began = monotonic()
    end = await called(target, answering(409, b"", **headers))
    took = timedelta(seconds=monotonic() - began)
    assert isinstance(end.error, Retry)
    if case.wait is None:
        assert end.error.after is None
        return
    # Without a `Date` header, a date is relative to now, and the call took a moment.
    assert end.error.after is not None
    assert timedelta(0) <= case.wait - end.error.after <= took


async def test_at_most_2_kib_of_the_body_are_read(target: Service) -> None:
    sent = 0

    async def pour(_: Received, writer: StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    end = await called(target, pour)
    assert end == Ended(ServiceResponse(200, "x" * LONGEST_RESPONSE))
    assert sent < 50_000_000


async def test_the_stored_response_is_text_that_postgres_accepts(target: Service) -> None:
    end = await called(target, answering(200, "ü".encode() * 1200 + b"\xff\x00"))
    assert end.answer.text == "ü" * 1024
    end = await called(target, answering(500, b"a\x00b\xff"))
    assert end.answer.text == "ab\ufffd"


async def test_a_compressed_response_is_not_decompressed(target: Service) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    end = await called(target, answering(200, bomb, Content_Encoding="gzip"))
    assert end == Ended(ServiceResponse(200, "(not shown: the encoding is gzip)"))


async def test_a_refused_connection_is_retried() -> None:
    async with service() as gone:
        port = gone.port
    async with calling(port) as caller:
        end = await ended(caller, a_request(f"http://127.0.0.1:{port}/run?token=abc"))
    assert isinstance(end.error, Retry)
    assert end.reason == f"no connection to http://127.0.0.1:{port}: Connection refused"
    assert end.answer == ServiceResponse(None, None)


BROKEN = {
    "closed at once": writing(),
    "no HTTP": writing(b"220 mail ready\r\n\r\n"),
    "half a head": writing(b"HTTP/1.1 200 OK\r\nContent-"),
    "half a body": writing(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
    "half a chunk": writing(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf"),
}


@pytest.mark.parametrize("behaviour", BROKEN.values(), ids=BROKEN.keys())
async def test_an_interrupted_response_is_retried(target: Service, behaviour: Behaviour) -> None:
    end = await called(target, behaviour)
    assert isinstance(end.error, Retry)
    assert end.reason.startswith(f"lost the connection to {target.url}: ")


async def test_the_start_of_an_interrupted_response_is_stored(target: Service) -> None:
    end = await called(target, BROKEN["half a body"])
    assert end.answer == ServiceResponse(200, "half")


HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"


async def test_a_few_interim_responses_are_accepted(target: Service) -> None:
    end = await called(target, writing(HINT * 10, HINT[:20], HINT[20:] + HINT + OK))
    assert end == Ended(ServiceResponse(200, "done"))


async def test_the_limits_apply_to_each_response_of_a_reused_connection(
    target: Service,
) -> None:
    async def hint(_: Received, writer: StreamWriter) -> None:
        writer.write(HINT * 15 + OK)
        await writer.drain()

    target.behaviour = hint
    async with calling(target.port) as caller:
        ends = [await ended(caller, a_request(target.url)) for _ in range(3)]
    assert (ends, target.connections) == ([Ended(ServiceResponse(200, "done"))] * 3, 1)


async def test_endless_interim_responses_end_the_call(target: Service) -> None:
    sent = 0

    async def pour(_: Received, writer: StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(HINT * 1000)
            await writer.drain()
            sent += 1000

    end = await called(target, pour)
    assert isinstance(end.error, Retry)
    assert end.reason == f"lost the connection to {target.url}: more than 20 interim responses"
    # At most the content of the system's buffers may have been sent.
    assert sent < 1_000_000


LONG_HEADS = {
    "an interim response": b"HTTP/1.1 103 x\r\nLink: " + b"x" * 70_000 + b"\r\n\r\n" + OK,
    "without an end": b"HTTP/1.1 103 x\r\nLink: " + b"x" * 1_000_000,
    "an answer": b"HTTP/1.1 200 x\r\nLink: " + b"x" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("head", LONG_HEADS.values(), ids=LONG_HEADS.keys())
async def test_more_than_64_kib_before_the_body_end_the_call(target: Service, head: bytes) -> None:
    end = await called(target, writing(head))
    assert isinstance(end.error, Retry)
    assert end.reason.startswith(f"lost the connection to {target.url}: more than 64 KiB")


async def test_a_timeout_is_retried(target: Service) -> None:
    async with calling(target.port) as caller:
        # The connection exists already, so the timeout only applies to the response.
        await ended(caller, a_request(target.url))
        target.behaviour = forever
        end = await ended(caller, a_request(target.url, timeout=timedelta(seconds=0.1)))
    assert target.connections == 1
    assert isinstance(end.error, Retry)
    assert end.reason == f"no answer in time from {target.url}"


async def test_the_start_of_a_slow_response_is_stored_when_the_call_is_cancelled(
    target: Service,
) -> None:
    dripped = asyncio.Event()

    async def drip(_: Received, writer: StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n...")
        await writer.drain()
        dripped.set()
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    target.behaviour = drip
    answer = ServiceResponse()
    async with calling(target.port) as caller:
        call = asyncio.ensure_future(caller.call(a_request(target.url), an_execution(), answer))
        await dripped.wait()
        while answer.status is None:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert answer.status == 200
    assert set(answer.text or "") <= {"."}
    await asyncio.wait_for(target.hung_up.wait(), PATIENCE)
