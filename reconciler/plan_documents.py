"""Plan files: a document with its format and a checksum.

The checksum detects a plan that was truncated or edited accidentally. Any program can compute it,
so it grants no permissions. If the settings have a key, the checksum is signed; see `plan_keys`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.json_stream import JsonStream
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import unreadable
from tenantcron.reconciler.document import canonical, checksum
from tenantcron.reconciler.plan_keys import PlanKeys

OF_DATABASE: Final = "tenantcron-plan/2"
OF_SERVER: Final = "tenantcron-server-plan/1"
_MADE_OTHERWISE: Final = {
    OF_DATABASE: "the plan was made from a database: apply it without --server",
    OF_SERVER: "the plan was made from a server: apply it with --server",
}


def seal(file: Path, form: str, plan: JsonObject, keys: PlanKeys) -> None:
    """Write a plan."""
    text = json.dumps({**_header(form, checksum(plan), keys), "plan": plan}, indent=2)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(file, error) from error


def _header(form: str, digest: str, keys: PlanKeys) -> dict[str, str]:
    signature = keys.sign(form, digest)
    signed = {} if signature is None else {"signature": signature}
    return {"format": form, "checksum": digest, **signed}


def _unwritable(file: Path, error: OSError) -> UsageError:
    return UsageError(f"{file}: the plan cannot be written: {error.strerror}")


class SealedDigest:
    """The checksum of a plan whose last key is a list, computed item by item."""

    def __init__(self, head: JsonObject, key: str) -> None:
        if any(name >= key for name in head):
            raise ValueError("the list must be the last key in alphabetical order")
        # The canonical text of the plan, up to the first item.
        self._digest = sha256(canonical({**head, key: []}).removesuffix(b"]}"))
        self._separator = b""

    def add(self, item: JsonValue) -> None:
        """Add an item of the list."""
        self._digest.update(self._separator + canonical(item))
        self._separator = b","

    def end(self) -> str:
        """Return the checksum after the last item."""
        self._digest.update(b"]}")
        return self._digest.hexdigest()


class SealedList:
    """Writes a plan whose last key is a list, item by item, in the format of `seal`.

    The plan is in a temporary file until it is complete: the checksum precedes the content in the
    file, and an incomplete plan must not be written.
    """

    def __init__(self, form: str, head: JsonObject, key: str) -> None:
        self._form = form
        self._plan = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- see `close`
        self._text = JsonStream(self._plan, margin="  ")
        for name, value in head.items():
            self._text.value(name, value)
        self._text.open_list(key)
        self._digest = SealedDigest(head, key)

    def add(self, item: JsonValue) -> None:
        """Add an item to the list."""
        self._text.item(item)
        self._digest.add(item)

    def write(self, file: Path, keys: PlanKeys) -> None:
        """Write the complete plan."""
        self._text.close_list()
        self._text.close()
        digest = self._digest.end()
        self._plan.seek(0)
        try:
            with file.open("w", encoding="utf-8") as stream:
                stream.write("{\n")
                for name, value in _header(self._form, digest, keys).items():
                    stream.write(f'  "{name}": "{value}",\n')
                stream.write('  "plan": ')
                copyfileobj(self._plan, stream)
                stream.write("\n}")
        except OSError as error:
            raise _unwritable(file, error) from error

    def close(self) -> None:
        """Close the temporary file."""
        self._plan.close()


def unseal(file: Path, form: str, keys: PlanKeys) -> JsonObject:
    """Read a plan; it must be complete, of this format, and signed if there is a key."""
    with _reading(file):
        saved: JsonValue = json.loads(file.read_text(encoding="utf-8"))
        given, plan = _opened(file, form, saved, keys)
        if checksum(plan) != given:
            raise _edited(file)
        return plan


def unseal_list(
    file: Path, form: str, key: str, keep: Callable[[JsonValue], None], keys: PlanKeys
) -> JsonObject:
    """Read a plan of `SealedList`: pass its items to `keep` one by one, return the other keys.

    The checksum is verified after the last item, so the caller must not act on items before. A plan
    with another JSON layout is read into memory at once.
    """
    with _reading(file), file.open(encoding="utf-8") as stream:
        frame: JsonValue = json.loads("".join(_frame(stream)))
        given, head = _opened(file, form, frame, keys)
        if head.pop(key, None) == []:
            stream.seek(0)
            _read_items(file, given, SealedDigest(head, key), _items(stream), keep)
            return head
    plan = dict(unseal(file, form, keys))
    match plan.pop(key, None):
        case list(items):
            for item in items:
                keep(item)
            return plan
    raise _edited(file)


def _read_items(
    file: Path,
    given: str,
    digest: "SealedDigest",
    items: Iterable[str],
    keep: Callable[[JsonValue], None],
) -> None:
    for text in items:
        item: JsonValue = json.loads(text)
        digest.add(item)
        keep(item)
    if digest.end() != given:
        raise _edited(file)


# How an item begins and ends in the layout of `SealedList`. JSON strings have no line breaks.
_BEGIN, _ENDS = "      {\n", ("      }\n", "      },\n")


def _frame(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines around the items."""
    is_item = False
    for line in lines:
        if not is_item and line != _BEGIN:
            yield line
        is_item = (is_item or line == _BEGIN) and line not in _ENDS


def _items(lines: Iterable[str]) -> Iterator[str]:
    """Yield the text of each item."""
    item: list[str] = []
    for line in lines:
        if item or line == _BEGIN:
            item.append(line)
        if item and line in _ENDS:
            yield "".join(item).rstrip(",\n")
            item = []


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{file}: the plan cannot be read: {unreadable(error)}") from error
    except (ValueError, RecursionError) as error:
        raise not_a_plan(file) from error


def _edited(file: Path) -> UsageError:
    return UsageError(f"{file}: the plan was edited or truncated; plan again")


def _opened(
    file: Path, form: str, saved: JsonValue, keys: PlanKeys
) -> tuple[str, dict[str, JsonValue]]:
    """Return the checksum and the plan of a file; verify the format and the signature."""
    match saved:
        case {"format": str(found), "checksum": str(given), "plan": dict(plan), **rest} if (
            found == form
        ):
            keys.require_signed(file, form, given, rest.get("signature"))
            return given, plan
        case {"format": str(found)} if found in _MADE_OTHERWISE:
            raise UsageError(f"{file}: {_MADE_OTHERWISE[found]}")
    raise not_a_plan(file)


def not_a_plan(file: Path) -> UsageError:
    """Return the error of a file that is not a plan."""
    return UsageError(f"{file}: not a plan of this version; create one with `plan --out`")
