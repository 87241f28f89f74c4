"""The loader's patterns match the same on every supported Python."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined] # not in its stub

import pytest

from tenantcron.manifests import loading
from tenantcron.manifests.document import load

MODULES = sorted(path.stem for path in Path(loading.__file__).parent.glob("[a-z]*.py"))


def patterns(module: str) -> Iterator[str]:
    """Return the patterns of a module, compiled or compiled on first use."""
    for value in vars(import_module(f"tenantcron.manifests.loading.{module}")).values():
        if isinstance(value, re.Pattern):
            yield value.pattern
        elif isinstance(value, str) and "+" in value:
            yield value


def possessive_groups(tokens: object) -> Iterator[object]:
    """Return the items of possessive repeats, at any depth."""
    if isinstance(tokens, tuple) and tokens and tokens[0] is _constants.POSSESSIVE_REPEAT:
        yield tokens[1][2]
    children = tokens if isinstance(tokens, list | tuple | _parser.SubPattern) else ()
    for child in children:
        yield from possessive_groups(child)


def stays_where_it_failed(body: object) -> bool:
    """Whether Python before 3.11.5 would continue from the middle of a failed repetition."""
    items = list(body)  # type: ignore[call-overload] # a parsed pattern
    return len(items) > 1 or items[0][0] not in {
        _constants.ATOMIC_GROUP,
        _constants.IN,
        _constants.ANY,
        _constants.LITERAL,
        _constants.NOT_LITERAL,
    }


@pytest.mark.parametrize("module", MODULES)
def test_possessive_repeats_are_of_characters_or_of_atomic_groups(module: str) -> None:
    for pattern in patterns(module):
        for body in possessive_groups(_parser.parse(pattern)):
            assert not stays_where_it_failed(body), pattern


def test_the_check_detects_the_pattern_that_fails_on_python_3_11_2() -> None:
    bodies = possessive_groups(_parser.parse(r'"(?:[^"\\]++|\\u[0-9a-f]{4})*+'))
    assert any(map(stays_where_it_failed, bodies))


def test_dots_after_a_document_are_not_its_end_unless_a_space_follows() -> None:
    assert load(b"a: 1\n...\n", syntax="yaml").problems == ()
    (problem,) = load(b"a: 1\n...\n...x\n", syntax="yaml").problems
    assert problem.span.line == 3
