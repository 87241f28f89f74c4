"""The cost of reading a manifest of 20 schedules: ours with both parsers, and ruamel's loaders."""

import io
import time
from collections.abc import Callable

from ruamel.yaml import YAML

from tenantcron.manifests.document import load
from tenantcron.manifests.loading.building import Builder
from tenantcron.manifests.loading.events import Event
from tenantcron.manifests.loading.problems import Problems
from tenantcron.manifests.loading.scalars import resolve
from tenantcron.manifests.loading.source import Source
from tenantcron.manifests.loading.yaml_events import Reader, read_pure, read_quick

SCHEDULE = """\
  - name: saga_{number}
    # a comment
    trigger:
      scheduled:
        name: schedule_{number}
        description: The work of every month, number {number}
        monthly: {{day: 1, at: "02:00"}}
        timezone: Europe/London
        overlap: skip
        timeout: 5m
        retry: {{max_attempts: 3, backoff: 1s, max_backoff: 60s}}
        payload: {{report: monthly, number: {number}}}
    target:
      http: {{url: "https://billing.internal/run", method: POST}}
"""


def manifest() -> str:
    """Return a manifest of 20 schedules, about 300 lines."""
    head = 'version: "1.0"\ntenant: acme\nmetadata: {name: Acme Energy}\nsagas:\n'
    return head + "".join(SCHEDULE.format(number=number) for number in range(20))


def milliseconds(work: Callable[[], object], rounds: int) -> float:
    """Return the minimum time of some rounds: other load of the machine only adds to it."""
    work()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times) * 1000


def build(text: str, read: Reader) -> None:
    """Build a document from the events of one parser."""
    Builder(Problems(Source(text)), resolve).build(read(text))


def drain(text: str, read: Reader) -> list[Event]:
    """Read the events and discard them."""
    return list(read(text))


def main() -> None:
    """Measure everything in one run and print a table."""
    text = manifest()
    content = text.encode()
    flow_times = text.replace('"02:00"', "02:00").encode()
    rows = {
        "load()": milliseconds(lambda: load(content, syntax="yaml"), 100),
        "load(), `{at: 02:00}` unquoted": milliseconds(lambda: load(flow_times, syntax="yaml"), 50),
        "our C events alone": milliseconds(lambda: drain(text, read_quick), 100),
        "built from pure events": milliseconds(lambda: build(text, read_pure), 10),
        "ruamel safe load": milliseconds(
            lambda: YAML(typ="safe", pure=True).load(io.StringIO(text)), 10
        ),
        "ruamel round trip": milliseconds(lambda: YAML().load(io.StringIO(text)), 10),
    }
    base = rows["load()"]
    print(f"{len(text.splitlines())} lines, {len(content):,} bytes")
    for name, took in rows.items():
        print(f"{name:32} {took:8.2f} ms {took / base:7.1f} x")


if __name__ == "__main__":
    main()
