"""'Did you mean', and quoted text in messages."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantcron.core.suggest import close_match
from tenantcron.core.words import LONGEST, shortened

KEYS = ("version", "tenant", "metadata", "schedules", "sagas")


@dataclass(frozen=True)
class Typo:
    """A mistyped word and the intended one."""

    word: str
    meant: str | None


@pytest.mark.parametrize(
    "typo",
    [
        Typo("sagas", "sagas"),
        Typo("saga", "sagas"),
        Typo("sagass", "sagas"),
        Typo("sagsa", "sagas"),
        Typo("Sagas", "sagas"),
        Typo("SAGAS", "sagas"),
        Typo("sgs", None),
        Typo("schedule", "schedules"),
        Typo("shedulse", "schedules"),
        Typo("schdls", None),
        Typo("tennat", "tenant"),
        Typo("instruments", None),
        Typo("accounts", None),
        Typo("", None),
        Typo("x" * 10_000, None),
    ],
    ids=lambda typo: typo.word[:12],
)
def test_a_word_within_one_or_two_edits_is_recognised(typo: Typo) -> None:
    assert close_match(typo.word, KEYS) == typo.meant


def test_the_nearest_candidate_wins_and_the_first_of_equals() -> None:
    assert close_match("nightly1", ["nightly33", "nightly12", "nightly1"]) == "nightly1"
    assert close_match("catch", ["match", "batch"]) == "match"
    assert close_match("anything", []) is None


WORDS = st.text("abcd", min_size=1, max_size=9)


def naive_edit_distance(left: str, right: str) -> int:
    """Count dropped, added, changed and swapped letters by the recursive definition."""
    if not left or not right:
        return len(left) + len(right)
    best = min(
        naive_edit_distance(left[1:], right) + 1,
        naive_edit_distance(left, right[1:]) + 1,
        naive_edit_distance(left[1:], right[1:]) + (left[0] != right[0]),
    )
    if left[:2] == right[:2][::-1] and len(left) > 1 and len(right) > 1:
        best = min(best, naive_edit_distance(left[2:], right[2:]) + 1)
    return best


@given(st.text("abcd", min_size=1, max_size=6), st.text("abcd", min_size=1, max_size=6))
def test_the_optimisations_do_not_change_the_result(word: str, candidate: str) -> None:
    allowed = 2 if min(len(word), len(candidate)) >= 6 else 1
    close = naive_edit_distance(word, candidate) <= allowed
    assert (close_match(word, [candidate]) == candidate) == close


@given(WORDS, st.data())
def test_one_edit_is_always_recognised(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("abcdxyz"))
    assert close_match(word[:at] + letter + word[at:], [word]) == word
    assert close_match(word[:at] + letter + word[at + 1 :], [word]) == word


def test_long_text_is_truncated() -> None:
    assert shortened("x" * LONGEST) == "x" * LONGEST
    assert shortened("x" * (LONGEST + 1)) == "x" * LONGEST + "…"
