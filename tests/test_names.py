"""A class name means one thing: the shipped packages define each name once."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

# Class names that are defined more than once, each with the reason.
ALLOWED: Final[dict[str, str]] = {}


def shipped_modules() -> Iterator[Path]:
    """Yield the Python files of all packages in the wheel."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for folder in pyproject["tool"]["setuptools"]["package-dir"].values():
        yield from (ROOT / folder).glob("*.py")


def classes(source: str) -> Iterator[str]:
    """Yield the names of all classes in a module, nested ones included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield node.name


def defined_more_than_once() -> dict[str, list[str]]:
    """Return the names with several definitions, and their modules."""
    modules = defaultdict(list)
    for path in sorted(set(shipped_modules())):
        for name in classes(path.read_text(encoding="utf-8")):
            modules[name].append(path.relative_to(ROOT).as_posix())
    return {name: found for name, found in modules.items() if len(found) > 1}


def test_each_class_name_is_defined_once() -> None:
    found = defined_more_than_once()
    assert {name: found[name] for name in found if name not in ALLOWED} == {}


def test_every_allowed_name_is_still_defined_more_than_once() -> None:
    assert ALLOWED.keys() <= defined_more_than_once().keys()


def test_all_packages_with_classes_are_covered() -> None:
    covered = {path.parent.relative_to(ROOT).parts[0] for path in shipped_modules()}
    assert {"api", "cli", "core", "reconciler", "scheduler", "store", "web"} <= covered


def test_nested_classes_count() -> None:
    assert list(classes("class A:\n    class B: ...\n")) == ["A", "B"]
