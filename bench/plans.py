"""How much slower reads of the API are while one viewer sends many plans at once.

    .venv/bin/python bench/plans.py [--quick]

Runs one `tenantcron serve` process. A viewer keeps 40 plans of a 192 KB manifest in progress; a
rejected request is sent again after a second. Meanwhile another caller reads, one request after the
other. There are two manifests: one within all limits, and one with 3,270 schedules where 20 are
allowed. Idle and busy seconds alternate, and the figure is the ratio of their medians. Exits with 1
if reads take at least 5 times as long as on an idle server. The client needs a core, too.
"""

import argparse
import asyncio
import socket
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from statistics import median
from time import perf_counter

import httpx
from api_server import READS, prepare, process, read_response, token, wait_until_ready
from serving import Workspace, add_database_url, server

from tenantcron.store.connection.engine import open_database

GOAL = 5.0
PLANS = 40
ROUNDS = 3
_HEAD = 'version: "1.0"\ntenant: planned\nsagas:\n'


def large() -> str:
    """Return a manifest with as many schedules as are allowed, and large payloads."""
    saga = "- name: s{0}\n  trigger:\n    scheduled:\n      cron: {0} 3 * * *\n      payload:\n"
    lines = "".join(f'        key_{number}: "value {number} of it"\n' for number in range(278))
    return _HEAD + "".join(saga.format(number) + lines for number in range(20))


def many() -> str:
    """Return a manifest with far more schedules than are allowed."""
    saga = '- name: saga_{0}\n  trigger: "scheduled:s_{0}:{1} {2} * * *"\n'
    sagas = (saga.format(number, number % 60, number % 24) for number in range(3_270))
    return _HEAD + "".join(sagas)


@dataclass(frozen=True, slots=True)
class Asked:
    """An address and the token that is shown there."""

    address: tuple[str, int]
    token: str

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return a request as it is sent."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/yaml\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


async def read(asked: Asked, seconds: float) -> list[float]:
    """Read one thing after the other; return how long each took, in milliseconds."""
    reader, writer = await asyncio.open_connection(*asked.address)
    times: list[float] = []
    end = perf_counter() + seconds
    for path in cycle(READS):
        begun = perf_counter()
        if begun > end:
            break
        writer.write(asked.request("GET", path))
        if await read_response(reader) != 200:
            raise RuntimeError(f"{path} is not answered")
        times.append((perf_counter() - begun) * 1000)
    writer.close()
    return times


async def plan(asked: Asked, manifest: bytes, codes: Counter[int]) -> None:
    """Send plans until cancelled."""
    path = "/v1/tenants/planned/manifest:plan?create_tenants=true"
    request = asked.request("POST", path, manifest)
    while True:
        reader, writer = await asyncio.open_connection(*asked.address)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(request)
            codes[code := await read_response(reader)] += 1
            if code == 429:
                await asyncio.sleep(1)
        writer.close()


async def busy_reads(
    asked: Asked, viewer: Asked, manifest: bytes, codes: Counter[int], seconds: float
) -> list[float]:
    """Read beside plans; return how long each read took."""
    tasks = [asyncio.create_task(plan(viewer, manifest, codes)) for _ in range(PLANS)]
    # Until the processes that check manifests have started.
    await read(asked, 1)
    times = await read(asked, seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return times


async def measure_beside(asked: Asked, viewer: Asked, manifest: str, seconds: float) -> bool:
    """Read on an idle server and beside plans, in turns; return whether the goal is met."""
    codes: Counter[int] = Counter()
    idle: list[float] = []
    busy: list[float] = []
    for _ in range(ROUNDS):
        # Until the plans of the round before are answered.
        await read(asked, 1)
        idle += await read(asked, seconds)
        busy += await busy_reads(asked, viewer, manifest.encode(), codes, seconds)
    ratio = median(busy) / median(idle)
    print(
        f"{len(manifest):,} bytes, {manifest.count('trigger:'):,} schedules:"
        f" reads take {ratio:.1f} times as long as on an idle server"
        f" ({median(busy):.1f} and {median(idle):.1f} ms; slowest {max(busy):.0f} ms),"
        f" plans by status {dict(codes)}"
    )
    return ratio < GOAL


async def measure(workspace: Workspace, *, quick: bool) -> bool:
    """Measure both manifests; return whether the goal is met."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address: tuple[str, int] = free.getsockname()
    async with open_database(workspace.settings) as database:
        await prepare(database)
        asked, viewer = [Asked(address, await token(database, None)) for _ in range(2)]
        with process(workspace, "serve", "--port", str(address[1])):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{address[1]}") as client:
                await wait_until_ready(client)
            met = [
                await measure_beside(asked, viewer, manifest, 1 if quick else 5)
                for manifest in (large(), many())
            ]
    return all(met)


def main() -> int:
    """Measure on a separate server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run for a few seconds only")
    add_database_url(parser)
    arguments = parser.parse_args()
    with server(arguments.database_url) as workspace:
        return 0 if asyncio.run(measure(workspace, quick=arguments.quick)) else 1


if __name__ == "__main__":
    sys.exit(main())
