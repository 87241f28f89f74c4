"""Check targets: URLs, hosts, headers and secrets of HTTP targets, and options of other kinds.

This checks what can be known without a network, with the rules of `core/egress.py`. The scheduler
checks each call with the same rules.
"""

import re
from collections.abc import Iterator

from tenantcron.core.auth import (
    Auth,
    MtlsAuth,
    OAuth2Auth,
    TokenAuth,
    kind_of,
    secrets_of,
)
from tenantcron.core.durations import format_duration
from tenantcron.core.egress import read_url
from tenantcron.core.headers import is_reserved_header
from tenantcron.core.secret_refs import may_use
from tenantcron.core.targets import HttpTarget, OtherTarget, Target
from tenantcron.core.values import JsonValue
from tenantcron.core.words import shortened
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.calls import CODES, check_audience
from tenantcron.manifests.language.hints import with_foreign_letter
from tenantcron.manifests.language.other_targets import check_other_target
from tenantcron.manifests.language.rules import RULES, Severity
from tenantcron.manifests.language.secret_texts import is_secret, secrets_of_query
from tenantcron.manifests.language.target_views import read_target
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.view import View
from tenantcron.schedules.schedule import DesiredSchedule
from tenantcron.schedules.targets import HEARTBEAT

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]{0,4094}[\x21-\x7e])?")


def check_target(saga: View, policy: Policy) -> Iterator[Fault]:
    """Yield the faults of a saga's target."""
    target = read_target(saga)
    if target is None:
        return
    at = (*saga.pointer, "target", target.kind)
    yield from _check_any(target, policy, at)
    yield from _secrets_in_auth(saga, at)
    yield from _check_heartbeat(saga, target, at)


def check_default_target(policy: Policy) -> Iterator[str]:
    """Yield the faults of the policy's default target, which has the same rules as any other."""
    target = policy.default_target
    if target is None:
        return
    for fault in _check_any(target, policy, ("policy", "default_target", target.kind)):
        if RULES[fault.code].severity is not Severity.ERROR:
            continue
        hint = f" ({fault.hint})" if fault.hint else ""
        yield f"  {'.'.join(map(str, fault.pointer))}: {fault.code} {fault.message}{hint}"


def _check_any(target: Target, policy: Policy, at: Pointer) -> Iterator[Fault]:
    if isinstance(target, OtherTarget):
        yield from check_other_target(target, policy, at)
        return
    yield from _check_url(target.url, policy, (*at, "url"))
    for name, value in target.headers.items():
        yield from _check_header(name, value, (*at, "headers", name))
    yield from _check_auth(target, policy, (*at, "auth"))


def check_retention(schedule: DesiredSchedule, policy: Policy, at: Pointer) -> Iterator[Fault]:
    """Yield a fault if a retry could come after the target has forgotten the key."""
    settings = schedule.timing.settings
    longest = settings.retry.longest(settings.timeout)
    if schedule.target is not None and longest > policy.idempotency_retention:
        message = (
            f"retries can take {format_duration(longest)}, "
            f"targets remember keys for {format_duration(policy.idempotency_retention)}"
        )
        yield Fault("TC404", message, at)


def _check_heartbeat(saga: View, target: Target, at: Pointer) -> Iterator[Fault]:
    heartbeat = target.heartbeat if isinstance(target, HttpTarget) else None
    match saga.value:
        case {"target": {"http": {"heartbeat": _}}} if heartbeat is None:
            message = "`heartbeat` has no effect without `completion: callback`"
            yield Fault("TC106", message, (*at, "heartbeat"), "add it, or remove `heartbeat`")
    if heartbeat is not None and (limits := HEARTBEAT.refusal(heartbeat)) is not None:
        yield Fault("TC305", f"`heartbeat` must be {limits}", (*at, "heartbeat"))


def _check_url(text: str, policy: Policy, at: Pointer) -> Iterator[Fault]:
    url = read_url(text)
    if url is None:
        hint = "write https://host/path: no user, no fragment, other characters as %XX"
        hint = with_foreign_letter(text, hint) or hint
        yield Fault("TC401", f"{shortened(text)} is not a URL that can be called", at, hint)
        return
    if (refusal := policy.egress.refusal(url)) is not None:
        yield Fault(CODES[refusal.kind], refusal.message, at, refusal.hint)
    for name in secrets_of_query(url.target):
        yield _secret_in(f"`{shortened(name)}` in the query of the URL", at)


def _check_header(name: str, value: str, at: Pointer) -> Iterator[Fault]:
    if _TOKEN.fullmatch(name) is None:
        yield Fault("TC403", f"`{shortened(name)}` is not a valid header name", at, at_key=True)
    elif is_reserved_header(name):
        yield Fault("TC403", f"`{name}` is reserved", at, "remove it", at_key=True)
    elif is_secret(name, value):
        yield _secret_in(f"the value of `{name}`", at)
    if _HEADER_VALUE.fullmatch(value) is None:
        yield Fault("TC403", f"the value of `{shortened(name)}` must be printable ASCII", at)


def _check_auth(target: HttpTarget, policy: Policy, at: Pointer) -> Iterator[Fault]:
    auth, url = target.auth, read_url(target.url)
    if auth is None:
        return
    at = (*at, kind_of(auth))
    yield from _check_references(auth, policy, at)
    match auth:
        case TokenAuth(str(audience)) if url is not None:
            yield from check_audience(audience, url.origin, policy, (*at, "audience"))
        case OAuth2Auth(token_url):
            yield from _check_url(token_url, policy, (*at, "token_url"))
        case MtlsAuth() if url is not None and url.scheme != "https":
            yield Fault("TC401", "`mtls` needs a URL that begins with https://", at)


def _check_references(auth: Auth, policy: Policy, at: Pointer) -> Iterator[Fault]:
    for name, ref in secrets_of(auth).items():
        if not may_use(ref, policy.allowed_secrets):
            message = f"{ref} is not a secret that this tenant may use"
            hint = f'the platform team can add "{ref}" to allowed_secrets in the [policy] table'
            yield Fault("TC408", message, (*at, name, ref.kind), hint)


def _secrets_in_auth(saga: View, at: Pointer) -> Iterator[Fault]:
    """Check the raw value: a secret instead of a reference fails the structure check."""
    match saga.value:
        case {"target": {"http": {"auth": dict(auth)}}}:
            for kind, options in auth.items():
                yield from _secret_in_options(options, (*at, "auth", kind))


def _secret_in_options(options: JsonValue, at: Pointer) -> Iterator[Fault]:
    match options:
        case {"secret": str()}:
            yield _secret_in("`secret`", (*at, "secret"))
        case {"secret": {"env": str(name)}} if is_secret("", name):
            yield _secret_in("`env`", (*at, "secret", "env"))


def _secret_in(what: str, at: Pointer) -> Fault:
    hint = "refer to it instead: auth: {bearer: {secret: {env: NAME}}}, or auth: execution_token"
    return Fault("TC407", f"{what} looks like a secret, which must not be in a manifest", at, hint)
