"""Columns of long lists: aligned, within the width of the terminal, and truncated."""

import io

import pytest

from tenantcron.cli.columns import TextColumns, lines
from tenantcron.cli.terminal import Palette

TITLES = ("tenant", "status", "reason")


@pytest.fixture
def plain() -> Palette:
    return Palette(io.StringIO())


def test_columns_are_as_wide_as_their_widest_cell(plain: Palette) -> None:
    rows = [("acme", "active", ""), ("northwind", "suspended", "unpaid")]

    assert list(lines(TITLES, rows, plain, 80)) == [
        "tenant     status     reason",
        "acme       active",
        "northwind  suspended  unpaid",
    ]


@pytest.mark.parametrize("available", [80, 40, 20])
def test_no_line_is_wider_than_the_terminal_and_the_widest_column_gives_way(
    plain: Palette, available: int
) -> None:
    rows = [("acme", "active", "why " * 50), ("b", "suspended", "")]

    shown = list(lines(TITLES, rows, plain, available))

    assert max(map(len, shown)) <= available
    assert shown[1].endswith("…")
    assert shown[1].startswith("acme")


def test_wide_characters_take_two_columns_and_escapes_none(plain: Palette) -> None:
    rows = [("請求", "active", "x"), ("ab", "a\x1b[2Jb", "y")]

    shown = list(lines(TITLES, rows, plain, 80))

    assert shown[1] == "請求    active  x"
    assert shown[2] == "ab      a�[2Jb  y"


def test_a_later_wider_row_uses_the_free_space_of_its_line(plain: Palette) -> None:
    columns = TextColumns.fitting(TITLES, [("acme", "active", "")], 30)

    assert columns.line(("northwind", "active", "new"), plain) == "northwind  active  new"
    cut = columns.line(("northwind-of-the-very-north", "active", "new"), plain)
    assert cut == "north…  active  new"
