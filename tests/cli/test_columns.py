"""Tables of text: aligned, within the width of the terminal, and a list if it is narrow."""

import io

import pytest

from tenantcron.cli.columns import Column, Fit, TextColumns, lines
from tenantcron.cli.terminal import Palette

COLUMNS = (Column("tenant", Fit.NAME, least=6), Column("status"), Column("reason", Fit.PROSE))
EXECUTIONS = (
    Column("execution"),
    Column("schedule", Fit.NAME),
    Column("state"),
    Column("took", Fit.OPTIONAL),
    Column("reason", Fit.PROSE),
)
EXECUTION = (
    "3f2a9c1e",
    "acme/monthly_statements",
    "SUCCEEDED",
    "12.0s",
    "because " * 3 + "because",
)


@pytest.fixture
def plain() -> Palette:
    return Palette(io.StringIO())


def test_columns_are_as_wide_as_their_widest_cell(plain: Palette) -> None:
    rows = [("acme", "active", ""), ("northwind", "suspended", "unpaid")]

    assert list(lines(COLUMNS, rows, plain, 80)) == [
        "tenant     status     reason",
        "acme       active",
        "northwind  suspended  unpaid",
    ]


@pytest.mark.parametrize("available", [80, 60, 40])
def test_no_line_is_wider_than_the_terminal_and_the_reason_gives_way(
    plain: Palette, available: int
) -> None:
    rows = [("acme", "active", "why " * 50), ("b", "suspended", "")]

    shown = list(lines(COLUMNS, rows, plain, available))

    assert max(map(len, shown)) <= available
    assert shown[1].endswith("…")
    assert shown[1].startswith("acme")


@pytest.mark.parametrize(
    ("available", "is_list"), [(80, False), (70, False), (69, True), (60, True)]
)
def test_a_narrow_terminal_shows_a_list_instead_of_cut_names(
    plain: Palette, available: int, *, is_list: bool
) -> None:
    name = "northwind_" * 7
    rows = [(name, "active", ""), ("acme", "active", "")]

    shown = list(lines(COLUMNS, rows, plain, available))

    assert (shown[0] == name) is is_list
    assert ("…" in shown[1]) is not is_list


def test_a_narrow_terminal_keeps_a_table_whose_names_fit(plain: Palette) -> None:
    rows = [("acme", "active", "why " * 50)]

    assert next(lines(COLUMNS, rows, plain, 40)).split() == ["tenant", "status", "reason"]


def test_wide_characters_take_two_columns_and_escapes_none(plain: Palette) -> None:
    rows = [("請求", "active", "x"), ("ab", "a\x1b[2Jb", "y")]

    shown = list(lines(COLUMNS, rows, plain, 80))

    assert shown[1] == "請求    active  x"
    assert shown[2] == "ab      a�[2Jb  y"


def test_a_later_wider_row_uses_the_free_space_of_its_line(plain: Palette) -> None:
    columns = TextColumns.fitting(COLUMNS, [("acme", "active", "")], 30)

    wider, cut = ("northwind", "active", "new"), ("northwind-of-the-very-north", "active", "new")
    assert list(columns.row(wider, plain)) == ["northwind  active  new"]
    assert list(columns.row(cut, plain)) == ["north…  active  new"]


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (
            80,
            [
                "execution  schedule                 state      took   reason",
                "3f2a9c1e   acme/monthly_statements  SUCCEEDED  12.0s  because because because b…",
            ],
        ),
        (
            66,
            [
                "execution  schedule                 state      reason",
                "3f2a9c1e   acme/monthly_statements  SUCCEEDED  because because be…",
            ],
        ),
        (
            60,
            [
                "3f2a9c1e",
                "  schedule  acme/monthly_statements",
                "  state     SUCCEEDED",
                "  took      12.0s",
                "  reason    because because because because",
            ],
        ),
    ],
)
def test_reasons_shrink_first_then_optional_columns_go_then_it_is_a_list(
    plain: Palette, available: int, expected: list[str]
) -> None:
    assert list(lines(EXECUTIONS, [EXECUTION], plain, available)) == expected


def test_names_shrink_before_the_reason_gets_shorter_than_its_least(plain: Palette) -> None:
    columns = (
        Column("execution"),
        Column("schedule", Fit.NAME),
        Column("scheduled for"),
        Column("reason", Fit.PROSE, least=10, tightest=8),
    )
    row = ("3f2a9c1e", "acme/monthly_statements", "2026-12-01 02:00:00 UTC", "because of this")

    shown = [list(lines(columns, [row], plain, width))[1] for width in (71, 70)]
    wider = ("01a1f066-5c6c-7d68-bd9b", *row[1:])
    tight = list(lines(columns, [wider], plain, 74))[1]

    assert shown[0] == "3f2a9c1e   acme/monthly_statements  2026-12-01 02:00:00 UTC  because o…"
    assert shown[1] == "3f2a9c1e   acme/monthly_statemen…  2026-12-01 02:00:00 UTC  because o…"
    assert tight == "01a1f066-5c6c-7d68-bd9b  acme/monthly_…  2026-12-01 02:00:00 UTC  because…"


def test_the_last_cell_of_a_narrowed_line_uses_the_rest_of_it(plain: Palette) -> None:
    columns = (Column("schedule"), Column("next", Fit.PROSE, least=10), Column("UTC"))
    rows = [("nightly", "Tue 02:00", "2026-12-01"), ("weekly", "paused: the partner is down", "")]

    assert list(lines(columns, rows, plain, 36)) == [
        "schedule  next            UTC",
        "nightly   Tue 02:00       2026-12-01",
        "weekly    paused: the partner is do…",
    ]
