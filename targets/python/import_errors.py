"""Explains why a module of handlers cannot be imported: where, the line, and what to do."""

import sys
import traceback
from pathlib import Path

from tenantcron.core.words import visible

# Frames of Python's import system, which say nothing about the module.
_IMPORTING = ("<frozen importlib", "<frozen zipimport")
_INDENT = " " * 4


def import_failure(name: str, error: BaseException) -> str:
    """Return the message for a module that failed on import."""
    what = f"{type(error).__name__}: {error}"
    place, excerpt = _raised(error)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        what = f"{type(error).__name__}: {error.msg}"
        place, excerpt = _location(error.filename, error.lineno), _marked(error)
    head = f"the module {name} cannot be imported: {what}{place and f' at {place}'}"
    return "\n".join([head, *(_INDENT + line for line in excerpt), _advice(error)])


def _raised(error: BaseException) -> tuple[str, list[str]]:
    """Return the place where an exception was raised, and the line there."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_IMPORTING):
            line = visible((frame.line or "").strip())
            return _location(frame.filename, frame.lineno), [line] if line else []
    return "", []


def _location(file: str, line: int | None) -> str:
    path = Path(file)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{line}"


def _marked(error: SyntaxError) -> list[str]:
    """Return the line of a syntax error with a marker below."""
    text = (error.text or "").split("\n", 1)[0].rstrip()
    line = text.lstrip()
    if not line:
        return []
    if error.offset is None or not line.isascii():
        return [visible(line)]
    at = max(0, error.offset - 1 - (len(text) - len(line)))
    return [visible(line), " " * at + "^"]


def _advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"Install the package that contains {error.name} in the environment {sys.prefix}, or "
            "fix the import."
        )
    return "Fix the module and run the command again."
