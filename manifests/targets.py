"""Judges where a saga may be run: URLs, hosts and headers of HTTP targets.

What can be known without a network is checked here; addresses are checked again when they are
called. URLs are matched whole against one strict form rather than taken apart by a lenient parser,
because what two parsers read differently is what attackers look for.
"""

import re
from collections.abc import Iterable, Iterator

from tenantcron.core.durations import format_duration
from tenantcron.core.words import shortened
from tenantcron.manifests.desired import DesiredSchedule, HttpTarget
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.schemas import defaults
from tenantcron.manifests.view import View

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_URL = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_LABEL}(\.{_LABEL})*|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{{1,5}}))?"
    r"([/?]([!$&'()*+,\-./0-9:;=?@A-Z_a-z~]|%[0-9a-f]{2})*)?",
    re.ASCII | re.IGNORECASE,  # without ASCII, the Kelvin sign would be a k
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]{0,4094}[\x21-\x7e])?")

# Ours, the connection's, and those that carry credentials: they have no place in Git.
_RESERVED_HEADERS = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "idempotency-key",
        "proxy-authorization",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_RESERVED_PREFIX = "x-tenantcron-"


def read_target(saga: View) -> HttpTarget | None:
    """Return a saga's HTTP target, None if it has none or a broken one."""
    target = saga.get("target")
    http = target and target.get("http")
    url = None if http is None else http.text("url")
    if http is None or url is None:
        return None
    headers = http.get("headers")
    return HttpTarget(
        url=url,
        method=http.text("method") or str(defaults("manifest", "HttpTarget")["method"]),
        headers={key: str(view.value) for key, view in headers.entries()} if headers else {},
    )


def judge_target(saga: View, policy: Policy) -> Iterator[Fault]:
    """Yield what is wrong with a saga's target."""
    target = read_target(saga)
    if target is None:
        return
    at = (*saga.pointer, "target", "http")
    yield from _judge_url(target.url, policy, (*at, "url"))
    for name, value in target.headers.items():
        yield from _judge_header(name, value, (*at, "headers", name))


def judge_retention(schedule: DesiredSchedule, policy: Policy, at: Pointer) -> Iterator[Fault]:
    """Yield a fault if a retry could outlive what the target remembers."""
    settings = schedule.timing.settings
    longest = settings.retry.longest(settings.timeout)
    if schedule.target is not None and longest > policy.idempotency_retention:
        message = (
            f"retries can go on for {format_duration(longest)}, "
            f"targets remember for {format_duration(policy.idempotency_retention)}"
        )
        yield Fault("TC404", message, at)


def _judge_url(url: str, policy: Policy, at: Pointer) -> Iterator[Fault]:
    match = _URL.fullmatch(url)
    if match is None:
        hint = "write https://host/path: no user, no fragment, other characters as %XX"
        yield Fault("TC401", f"{shortened(url)} is not a URL that can be called", at, hint)
        return
    scheme, host = match["scheme"].lower(), match["host"].lower()
    if match["port"] and not 1 <= int(match["port"]) <= 65_535:
        yield Fault("TC401", f"there is no port {match['port']}", at)
    if is_allowed(scheme, host, policy.allowed_hosts):
        return
    if scheme == "http" and is_allowed("https", host, policy.allowed_hosts):
        yield Fault("TC401", f"{host} may be called by https only", at, "write https instead")
        return
    entry = host if scheme == "https" else f"http://{host}"
    hint = f'the platform team can add "{entry}" to allowed_hosts in the [policy] table'
    yield Fault("TC402", f"{host} is not among the hosts that may be called", at, hint)


def is_allowed(scheme: str, host: str, allowed: Iterable[str]) -> bool:
    """Whether a host is listed; plain http only by an entry that says http://."""
    entries = (entry.lower() for entry in allowed)
    prefix = "http://" if scheme == "http" else ""
    hosts = [
        entry.removeprefix(prefix)
        for entry in entries
        if entry.startswith("http://") == (scheme == "http")
    ]
    return any(
        host.endswith(entry[1:]) and host != entry[1:] if entry.startswith("*.") else host == entry
        for entry in hosts
    )


def _judge_header(name: str, value: str, at: Pointer) -> Iterator[Fault]:
    if _TOKEN.fullmatch(name) is None:
        yield Fault("TC403", f"`{shortened(name)}` cannot name a header", at, at_key=True)
    elif name.lower() in _RESERVED_HEADERS or name.lower().startswith(_RESERVED_PREFIX):
        yield Fault("TC403", f"`{name}` is reserved", at, "remove it", at_key=True)
    if _HEADER_VALUE.fullmatch(value) is None:
        yield Fault("TC403", f"the value of `{shortened(name)}` must be printable ASCII", at)
