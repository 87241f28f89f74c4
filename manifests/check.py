"""Check a manifest: its bytes become desired schedules and problems, without a database."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from tenantcron.core.names import TENANT_EXPECTED, TenantId, is_reserved, is_tenant_id
from tenantcron.core.words import shortened
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.diagnostics import (
    AND_MORE,
    MAX_OF_ONE_CODE,
    START,
    Fault,
    Pointer,
    Problem,
    Span,
)
from tenantcron.manifests.document import Document, Syntax, load
from tenantcron.manifests.language.hints import with_foreign_letter
from tenantcron.manifests.language.rules import RULES, Severity
from tenantcron.manifests.language.schemas import schema
from tenantcron.manifests.language.structure import check_structure, unusable
from tenantcron.manifests.language.timetable_rules import TimetableRules
from tenantcron.manifests.language.timing import TimingReader
from tenantcron.manifests.normalise import normalise
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.view import View

# Problems of single keys and numbers; all other problems of the loader concern the document.
_VALUE_CODES = frozenset({"TC011", "TC012", "TC013"})
_NAME_IT = "add `tenant:` to the manifest, rename the file, or pass --tenant"


class CheckedManifest(NamedTuple):
    """The result for one manifest: its tenant if known, its schedules if there are no errors."""

    tenant: TenantId | None
    tenant_span: Span
    desired: Desired | None
    problems: tuple[Problem, ...]


class TenantHints(NamedTuple):
    """The tenant of a manifest without `tenant:`: from --tenant, else from the file's name."""

    asked_for: str | None = None
    file_stem: str | None = None


def check_manifest(
    content: bytes, syntax: Syntax, policy: Policy, hints: TenantHints, now: datetime
) -> CheckedManifest:
    """Check a manifest and return all its problems, in the order of the text."""
    loaded = load(content, syntax=syntax)
    if loaded.document is None:
        return CheckedManifest(None, START, None, loaded.problems)
    faults: list[Fault] = check_structure("manifest", loaded.document.data)
    view = View(loaded.document.data, (), unusable(faults))
    tenant = _tenant(view, hints, faults)
    rules = TimetableRules(policy.minimum_interval, now)
    reader = TimingReader(rules, policy.max_timeout, faults)
    schedules = normalise(view, tenant, policy, reader)
    located = (_located(fault, loaded.document) for fault in _bounded(faults))
    problems = _relevant([*loaded.problems, *located])
    sound = not any(map(_is_error, problems))
    desired = Desired(tenant, schedules) if tenant is not None and sound else None
    return CheckedManifest(tenant, loaded.document.place(("tenant",)), desired, problems)


def _tenant(manifest: View, hints: TenantHints, faults: list[Fault]) -> TenantId | None:
    """Return the tenant: of the manifest, else of the caller, else of the file's name."""
    entry = manifest.get("tenant")
    name = manifest.text("tenant") or hints.asked_for or hints.file_stem
    at = entry.pointer if entry else ()
    if name is None or not is_tenant_id(name):
        if manifest.faulty.isdisjoint({(), ("tenant",)}):
            hint = with_foreign_letter(name or "", _NAME_IT)
            faults.append(Fault("TC113", _no_tenant(name), at, hint))
        return None
    if is_reserved(name):
        faults.append(Fault("TC108", f"`{name}` cannot be a tenant: the name is reserved", at))
        return None
    if hints.asked_for not in (None, name):
        message = f"the manifest is for `{name}`, not for `{hints.asked_for}`"
        faults.append(Fault("TC114", message, at))
    return TenantId(name)


def _no_tenant(name: str | None) -> str:
    return f"`{shortened(name)}` is not {TENANT_EXPECTED}" if name else "the manifest has no tenant"


def _located(fault: Fault, document: Document) -> Problem:
    span = document.place(fault.pointer, key=fault.at_key)
    return Problem(fault.code, fault.message, fault.pointer, span, fault.hint)


def _bounded(faults: list[Fault]) -> Iterator[Fault]:
    """Keep as many faults of each code as the loader does."""
    kept: Counter[str] = Counter()
    for fault in faults:
        kept[fault.code] += 1
        if kept[fault.code] <= MAX_OF_ONE_CODE:
            yield fault
        elif kept[fault.code] == MAX_OF_ONE_CODE + 1:
            yield fault._replace(message=AND_MORE, hint=None)


def _relevant(problems: list[Problem]) -> tuple[Problem, ...]:
    """Drop problems of other tools' values, and warnings about values that have an error."""
    with_errors = {problem.span for problem in problems if _is_error(problem)}
    kept = (
        problem
        for problem in problems
        if problem.code not in _VALUE_CODES
        or (_is_ours(problem.pointer) and (_is_error(problem) or problem.span not in with_errors))
    )
    return tuple(sorted(kept, key=lambda problem: (problem.span, problem.code)))


def _is_ours(pointer: Pointer) -> bool:
    """Whether a value is in a section of tenantcron, not in one of another tool."""
    root = schema("manifest")
    if not pointer:
        return True
    if pointer[0] != "sagas" or len(pointer) < 3:
        return pointer[0] in root["properties"]
    return pointer[2] in root["$defs"]["Saga"]["properties"]


def _is_error(problem: Problem) -> bool:
    return RULES[problem.code].severity is Severity.ERROR
