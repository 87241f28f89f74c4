"""Errors of handlers as text."""

import pytest

from tenantcron.targets.faults import LONGEST_TEXT, described, headline_of
from tenantcron.targets.signals import Fail, Retry


def raised(error: BaseException) -> BaseException:
    """Raise and catch an error two frames deep, so that it has a traceback."""

    def inner_function() -> None:
        raise error

    try:
        inner_function()
    except BaseException as caught:  # noqa: BLE001 -- any BaseException
        return caught
    raise AssertionError


def test_the_text_has_type_and_message_first_and_then_the_last_frames() -> None:
    text = described(raised(ValueError("no such meter")))

    assert text.splitlines()[0] == "ValueError: no such meter"
    assert "in inner_function" in text


def test_the_text_includes_the_cause() -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")

    assert "KeyError: 'inner'" in described(raised(error))


def test_the_text_includes_the_members_of_a_group() -> None:
    group = ExceptionGroup("two things", [ValueError("one"), TypeError("two")])
    text = described(raised(group))
    assert "ValueError: one" in text
    assert "TypeError: two" in text


@pytest.mark.parametrize("message", ["x" * 1_000_000, "ü" * 1_000_000, "a\n" * 100_000])
def test_the_text_has_at_most_4_kib_however_long_the_message_is(message: str) -> None:
    text = described(raised(ValueError(message)))

    assert len(text.encode()) <= LONGEST_TEXT
    assert text.startswith(f"ValueError: {message[:100]}")


def test_an_endless_recursion_is_described_by_its_last_frames() -> None:
    def deeper() -> None:
        deeper()

    with pytest.raises(RecursionError) as caught:
        deeper()

    assert len(described(caught.value).encode()) <= LONGEST_TEXT


def test_characters_that_postgres_cannot_store_are_removed() -> None:
    text = described(raised(ValueError("a\0b\ud800c\x1b")))

    assert text.splitlines()[0] == "ValueError: ab\\ud800c\x1b"
    assert "\0" not in text


def test_an_error_with_a_broken_str_is_described_by_its_type() -> None:
    class Broken(Exception):  # noqa: N818 -- a handler's own
        def __str__(self) -> str:
            raise TypeError("not even that")

    assert described(raised(Broken())).startswith("Broken: (its message cannot be shown)")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Retry("the bank is closed"), "the bank is closed"),
        (Fail("no such customer"), "no such customer"),
        (Retry(), "Retry"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_headline_is_the_reason_or_type_and_message(
    error: BaseException, expected: str
) -> None:
    assert headline_of(error) == expected
