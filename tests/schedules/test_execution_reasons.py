"""The words of reasons: one renderer for all codes."""

import pytest

from tenantcron.schedules.execution_reasons import ReasonCode, reason_text


@pytest.mark.parametrize("code", ReasonCode)
def test_every_code_has_words_that_are_not_the_code(code: ReasonCode) -> None:
    words = reason_text(code, None)

    assert words
    assert code in (ReasonCode.PAUSED, ReasonCode.FAILED, ReasonCode.CANCELLED) or words != code
    assert "{" not in words


@pytest.mark.parametrize(
    ("code", "detail", "words"),
    [
        (ReasonCode.PAUSED, "the disk is full", "paused: the disk is full"),
        (ReasonCode.PAUSED, "auto:consecutive_failures", "paused: repeated failures"),
        (ReasonCode.LIMIT, "3 of 3", "concurrency limit reached (3 of 3)"),
        (ReasonCode.TENANT_INACTIVE, "suspended: unpaid", "tenant suspended: unpaid"),
        (ReasonCode.FAILED, "KeyError: {0}", "KeyError: {0}"),
        (ReasonCode.STILL_RUNNING, None, "still running"),
        (None, "words of the release before", "words of the release before"),
        (None, None, None),
        ("code_of_a_later_release", "and its detail", "code_of_a_later_release: and its detail"),
        ("code_of_a_later_release", None, "code_of_a_later_release"),
    ],
)  # fmt: skip
def test_a_reason_is_read_as_one_sentence(
    code: str | None, detail: str | None, words: str | None
) -> None:
    assert reason_text(code, detail) == words


def test_a_code_fits_its_column() -> None:
    assert max(map(len, ReasonCode)) <= 32
