"""Check targets that are not HTTP: whether the policy allows the kind, and their options.

The policy names the kinds that manifests may use, so a machine without a plug-in knows them, too.
There the options cannot be checked, which is a warning. The plug-in is imported only for manifests
that use its kind.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from tenantcron.core.errors import UsageError
from tenantcron.core.plugins import is_installed, load_plugin
from tenantcron.core.requirements import TargetKind
from tenantcron.core.suggest import close_match
from tenantcron.core.targets import GROUP, OtherTarget
from tenantcron.core.values import JsonValue
from tenantcron.core.words import shortened
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.celery_targets import check_celery_target
from tenantcron.manifests.language.grpc_targets import check_grpc_target
from tenantcron.manifests.language.schemas import schema
from tenantcron.manifests.language.temporal_targets import check_temporal_target
from tenantcron.manifests.policy import Policy

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_PLACE: Final = "target_kinds of the policy"
_MOST_FAULTS: Final = 20

_BUILT_IN: Final = {
    TargetKind.GRPC: check_grpc_target,
    TargetKind.CELERY: check_celery_target,
    TargetKind.TEMPORAL: check_temporal_target,
}


def check_other_target(target: OtherTarget, policy: Policy, at: Pointer) -> Iterator[Fault]:
    """Yield the faults of a target whose kind is not `http`."""
    if target.kind not in policy.target_kinds:
        yield _unknown(target.kind, policy.target_kinds, at)
    elif target.kind in schema("manifest")["$defs"]["Target"]["properties"]:
        # The structure check covers the options of built-in kinds, except for rules of the policy.
        yield from _BUILT_IN[TargetKind(target.kind)](target, policy, at)
    elif not is_installed(GROUP, target.kind):
        message = f"the options of `{target.kind}` are not checked: its plug-in is not installed"
        yield Fault("TC411", message, at, at_key=True)
    else:
        yield from _check_options(target, at)


def _unknown(kind: str, allowed: tuple[str, ...], at: Pointer) -> Fault:
    known = (TargetKind.HTTP.value, *allowed)
    meant = close_match(kind, known)
    hint = (
        f"did you mean `{meant}`?"
        if meant
        else f'write {" or ".join(known)}; the platform team can add "{kind}" to target_kinds in '
        "the [policy] table"
    )
    return Fault("TC410", f"`{shortened(kind)}` is not a kind of target", at, hint, at_key=True)


def _check_options(target: OtherTarget, at: Pointer) -> Iterator[Fault]:
    try:
        validator = options_validator(target.kind)
    except UsageError as error:
        yield Fault("TC106", str(error), at, "reinstall or upgrade the plug-in", at_key=True)
        return
    for invalid in islice(validator.iter_errors(target.options), _MOST_FAULTS):
        yield Fault("TC106", shortened(invalid.message, 200), (*at, *invalid.absolute_path))


@cache
def options_validator(kind: str) -> "Validator":
    """Return the validator of a plug-in's options; raise a UsageError if its schema is invalid."""
    # Only manifests with such targets need it, and it is slow to import.
    from jsonschema import Draft202012Validator  # noqa: PLC0415 -- as it says
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 -- as above

    options: object = getattr(load_plugin(GROUP, kind, _PLACE), "options_schema", None)
    if not isinstance(options, Mapping):
        raise UsageError(f"{_PLACE}: the entry point {kind!r} has no `options_schema`")
    document: dict[str, JsonValue] = dict(options)
    try:
        Draft202012Validator.check_schema(document)
    except SchemaError as error:
        raise UsageError(f"{_PLACE}: the schema of {kind!r} is invalid: {error.message}") from None
    return Draft202012Validator(document)
