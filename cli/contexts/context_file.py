"""The file of contexts: read as a whole, written as a whole."""

import json
import os
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tenantcron.cli.contexts.context import Context, read_context
from tenantcron.core.errors import NotFoundError, UsageError
from tenantcron.core.suggest import close_match
from tenantcron.core.words import unreadable

FILE_NAME: Final = "contexts.toml"
_REPAIR: Final = "Correct the file, or delete it and set the contexts again"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class ContextFile:
    """All contexts of a user, and which one is current."""

    path: Path
    contexts: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def named(self, name: str) -> Context:
        """Return a context that must exist; the error suggests the closest name."""
        if name in self.contexts:
            return self.contexts[name]
        if not self.contexts:
            raise NotFoundError(
                f"there is no context {name!a}: `tenantcron context set {name} --server URL`"
            )
        meant = close_match(name, self.contexts)
        known = f"the known names are {', '.join(self.contexts)}"
        hint = f"did you mean {meant}?" if meant else known
        raise NotFoundError(f"there is no context {name!a}: {hint}")

    def save(self) -> None:
        """Replace the file; a reader sees the old or the new one, and only its owner reads it."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace()
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {unreadable(error)}") from error

    def _replace(self) -> None:
        # mkstemp creates a file that only its owner can read.
        handle, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=self.path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(self._text())
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _text(self) -> str:
        # A string of JSON is a basic string of TOML, and names need no quotes.
        lines = [] if self.current is None else [f"current = {json.dumps(self.current)}"]
        for context in self.contexts.values():
            lines += ["", f"[contexts.{context.name}]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in context.members().items()]
        return "\n".join(lines).lstrip() + "\n"


def context_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the file in the user's configuration folder."""
    folder = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "tenantcron" / FILE_NAME


def load_contexts(environment: Mapping[str, str]) -> ContextFile:
    """Read the file; without one there are no contexts."""
    path = context_path(environment)
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ContextFile(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {unreadable(error)}. {_REPAIR}") from error
    contexts, current = _parsed(path, text)
    if mode & _OTHERS and any(context.token for context in contexts.values()):
        raise UsageError(f"{path} has tokens that others can read: chmod 600 {path}")
    return ContextFile(path, contexts, current)


def _parsed(path: Path, text: str) -> tuple[dict[str, Context], str | None]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}. {_REPAIR}") from error
    tables, current = document.pop("contexts", {}), document.pop("current", None)
    if document or not isinstance(tables, dict) or not isinstance(current, str | None):
        page = "docs/operating.md#servers-and-contexts"
        raise UsageError(f"{path} is not a file of contexts: see {page}")
    contexts = {name: _context(path, name, members) for name, members in tables.items()}
    if current is not None and current not in contexts:
        raise UsageError(f"{path}: the current context {current!a} is not in the file")
    return contexts, current


def _context(path: Path, name: str, members: object) -> Context:
    if not isinstance(members, dict):
        raise UsageError(f"{path}: contexts.{name} is not a table")
    try:
        return read_context(name, members)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
