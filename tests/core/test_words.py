"""'Did you mean', and other people's text inside our sentences."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantcron.core.suggest import close_match
from tenantcron.core.words import LONGEST, shortened

KEYS = ("version", "tenant", "metadata", "schedules", "sagas")


@dataclass(frozen=True)
class Slip:
    """A mistyped word, and what it stands for."""

    word: str
    meant: str | None


@pytest.mark.parametrize(
    "slip",
    [
        Slip("sagas", "sagas"),
        Slip("saga", "sagas"),
        Slip("sagass", "sagas"),
        Slip("sagsa", "sagas"),
        Slip("Sagas", "sagas"),
        Slip("SAGAS", "sagas"),
        Slip("sgs", None),
        Slip("schedule", "schedules"),
        Slip("shedulse", "schedules"),
        Slip("schdls", None),
        Slip("tennat", "tenant"),
        Slip("instruments", None),
        Slip("accounts", None),
        Slip("", None),
        Slip("x" * 10_000, None),
    ],
    ids=lambda slip: slip.word[:12],
)
def test_a_word_within_a_slip_or_two_is_recognised(slip: Slip) -> None:
    assert close_match(slip.word, KEYS) == slip.meant


def test_the_nearest_candidate_wins_and_the_first_of_equals() -> None:
    assert close_match("nightly1", ["nightly33", "nightly12", "nightly1"]) == "nightly1"
    assert close_match("catch", ["match", "batch"]) == "match"
    assert close_match("anything", []) is None


WORDS = st.text("abcd", min_size=1, max_size=9)


def slips_by_the_book(left: str, right: str) -> int:
    """Count dropped, added, changed and swapped letters, slowly and plainly."""
    if not left or not right:
        return len(left) + len(right)
    best = min(
        slips_by_the_book(left[1:], right) + 1,
        slips_by_the_book(left, right[1:]) + 1,
        slips_by_the_book(left[1:], right[1:]) + (left[0] != right[0]),
    )
    if left[:2] == right[:2][::-1] and len(left) > 1 and len(right) > 1:
        best = min(best, slips_by_the_book(left[2:], right[2:]) + 1)
    return best


@given(st.text("abcd", min_size=1, max_size=6), st.text("abcd", min_size=1, max_size=6))
def test_short_cuts_change_no_answer(word: str, candidate: str) -> None:
    allowed = 2 if min(len(word), len(candidate)) >= 6 else 1
    close = slips_by_the_book(word, candidate) <= allowed
    assert (close_match(word, [candidate]) == candidate) == close


@given(WORDS, st.data())
def test_one_slip_is_always_recognised(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("abcdxyz"))
    assert close_match(word[:at] + letter + word[at:], [word]) == word
    assert close_match(word[:at] + letter + word[at + 1 :], [word]) == word


def test_long_text_is_cut() -> None:
    assert shortened("x" * LONGEST) == "x" * LONGEST
    assert shortened("x" * (LONGEST + 1)) == "x" * LONGEST + "…"
