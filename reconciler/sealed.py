"""Plan files: a document with its format and a checksum.

The checksum tells a plan that was edited or cut. It keeps nobody from forging one, for who can
write the file can also apply.
"""

import json
from pathlib import Path
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.definition import checksum

OF_DATABASE: Final = "tenantcron-plan/1"
OF_SERVER: Final = "tenantcron-server-plan/1"
_MADE_OTHERWISE: Final = {
    OF_DATABASE: "the plan was made from a database: apply it without --server",
    OF_SERVER: "the plan was made from a server: apply it with --server",
}


def seal(file: Path, form: str, plan: JsonObject) -> None:
    """Write a plan."""
    text = json.dumps({"format": form, "checksum": checksum(plan), "plan": plan}, indent=2)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: the plan cannot be written: {error.strerror}") from error


def unseal(file: Path, form: str) -> JsonObject:
    """Read a plan back; it must be whole and of that format."""
    try:
        saved: JsonValue = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: the plan cannot be read: {error}") from error
    match saved:
        case {"format": str(found), "checksum": str(given), "plan": dict(plan)} if found == form:
            if checksum(plan) != given:
                raise UsageError(f"{file}: the plan was edited or cut; plan again")
            return plan
        case {"format": str(found)} if found in _MADE_OTHERWISE:
            raise UsageError(f"{file}: {_MADE_OTHERWISE[found]}")
    raise UsageError(f"{file}: not a plan of this version; make one with `plan --out`")
