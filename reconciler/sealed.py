"""Plan files: a document with its format and a checksum.

The checksum tells a plan that was edited or cut. It keeps nobody from forging one, for who can
write the file can also apply.
"""

import json
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.json_stream import JsonStream
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.definition import canonical, checksum

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
        raise _unwritable(file, error) from error


def _unwritable(file: Path, error: OSError) -> UsageError:
    return UsageError(f"{file}: the plan cannot be written: {error.strerror}")


class SealedList:
    """Writes a plan whose last key is a list, item by item; the file is the one of `seal`.

    Until it is complete it is in a temporary file: its checksum stands before what it covers, and a
    plan is written in full or not at all.
    """

    def __init__(self, form: str, head: JsonObject, key: str) -> None:
        if any(name >= key for name in head):
            raise ValueError("a checksum covers the keys in the order of the alphabet")
        self._form = form
        self._plan = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- see `close`
        self._text = JsonStream(self._plan, margin="  ")
        for name, value in head.items():
            self._text.value(name, value)
        self._text.open_list(key)
        # The canonical text of the plan, up to the first item.
        self._digest = sha256(canonical({**head, key: []}).removesuffix(b"]}"))
        self._separator = b""

    def add(self, item: JsonValue) -> None:
        """Add an item to the list."""
        self._text.item(item)
        self._digest.update(self._separator + canonical(item))
        self._separator = b","

    def write(self, file: Path) -> None:
        """Write the plan, which is complete now."""
        self._text.close_list()
        self._text.close()
        self._digest.update(b"]}")
        self._plan.seek(0)
        try:
            with file.open("w", encoding="utf-8") as stream:
                stream.write(f'{{\n  "format": "{self._form}",\n')
                stream.write(f'  "checksum": "{self._digest.hexdigest()}",\n  "plan": ')
                copyfileobj(self._plan, stream)
                stream.write("\n}")
        except OSError as error:
            raise _unwritable(file, error) from error

    def close(self) -> None:
        """Forget what was added."""
        self._plan.close()


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
