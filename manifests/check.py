"""Checks one manifest: bytes in, what is desired and every problem out. No database, no network."""

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
from tenantcron.manifests.language.rules import RULES, Severity
from tenantcron.manifests.language.schemas import schema
from tenantcron.manifests.language.structure import check_structure, unusable
from tenantcron.manifests.language.timetable_rules import TimetableRules
from tenantcron.manifests.language.timing import TimingReader
from tenantcron.manifests.normalise import normalise
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.view import View

# What the loader says about single keys and numbers; all else concerns the whole document.
_ABOUT_VALUES = frozenset({"TC011", "TC012", "TC013"})


class Checked(NamedTuple):
    """The outcome for one manifest: its tenant if known, what is desired if nothing is wrong."""

    tenant: TenantId | None
    tenant_span: Span
    desired: Desired | None
    problems: tuple[Problem, ...]


class TenantHints(NamedTuple):
    """Who the manifest is for when it does not say: the caller's word, else the file's name."""

    asked_for: str | None = None
    file_stem: str | None = None


def check_manifest(
    content: bytes, syntax: Syntax, policy: Policy, hints: TenantHints, now: datetime
) -> Checked:
    """Check a manifest; all problems come at once, in the order of the text."""
    loaded = load(content, syntax=syntax)
    if loaded.document is None:
        return Checked(None, START, None, loaded.problems)
    faults: list[Fault] = check_structure("manifest", loaded.document.data)
    view = View(loaded.document.data, (), unusable(faults))
    tenant = _tenant(view, hints, faults)
    rules = TimetableRules(policy.minimum_interval, now)
    reader = TimingReader(rules, policy.max_timeout, faults)
    schedules = normalise(view, policy.for_tenant(tenant), reader)
    located = (_located(fault, loaded.document) for fault in _bounded(faults))
    problems = _relevant([*loaded.problems, *located])
    sound = not any(map(_is_error, problems))
    desired = Desired(tenant, schedules) if tenant is not None and sound else None
    return Checked(tenant, loaded.document.place(("tenant",)), desired, problems)


def _tenant(manifest: View, hints: TenantHints, faults: list[Fault]) -> TenantId | None:
    """Return whose manifest it is: its own word, else the caller's, else the file's name."""
    written = manifest.get("tenant")
    name = manifest.text("tenant") or hints.asked_for or hints.file_stem
    at = written.pointer if written else ()
    if name is None or not is_tenant_id(name):
        if manifest.faulty.isdisjoint({(), ("tenant",)}):
            hint = "add `tenant:` to the manifest, rename the file, or pass --tenant"
            faults.append(Fault("TC113", _no_tenant(name), at, hint))
        return None
    if is_reserved(name):
        faults.append(Fault("TC108", f"`{name}` cannot be a tenant: the name is reserved", at))
        return None
    if hints.asked_for not in (None, name):
        message = f"the manifest is for `{name}`, asked for is `{hints.asked_for}`"
        faults.append(Fault("TC114", message, at))
    return TenantId(name)


def _no_tenant(name: str | None) -> str:
    return f"`{shortened(name)}` is not {TENANT_EXPECTED}" if name else "nothing says whose it is"


def _located(fault: Fault, document: Document) -> Problem:
    span = document.place(fault.pointer, key=fault.at_key)
    return Problem(fault.code, fault.message, fault.pointer, span, fault.hint)


def _bounded(faults: list[Fault]) -> Iterator[Fault]:
    """Of each kind keep as many as the loader does: nobody reads thousands of one mistake."""
    kept: Counter[str] = Counter()
    for fault in faults:
        kept[fault.code] += 1
        if kept[fault.code] <= MAX_OF_ONE_CODE:
            yield fault
        elif kept[fault.code] == MAX_OF_ONE_CODE + 1:
            yield fault._replace(message=AND_MORE, hint=None)


def _relevant(problems: list[Problem]) -> tuple[Problem, ...]:
    """Leave other tools' values alone, and doubts about a value that is refused anyway."""
    refused = {problem.span for problem in problems if _is_error(problem)}
    kept = (
        problem
        for problem in problems
        if problem.code not in _ABOUT_VALUES
        or (_is_ours(problem.pointer) and (_is_error(problem) or problem.span not in refused))
    )
    return tuple(sorted(kept, key=lambda problem: (problem.span, problem.code)))


def _is_ours(pointer: Pointer) -> bool:
    """Whether a value stands in one of our sections rather than in another tool's."""
    root = schema("manifest")
    if not pointer:
        return True
    if pointer[0] != "sagas" or len(pointer) < 3:
        return pointer[0] in root["properties"]
    return pointer[2] in root["$defs"]["Saga"]["properties"]


def _is_error(problem: Problem) -> bool:
    return RULES[problem.code].severity is Severity.ERROR
