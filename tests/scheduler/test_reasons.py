"""Kinds of reasons: whatever the words, the labels stay few."""

import re
from pathlib import Path
from random import Random

import pytest
from support.attempts import SETTINGS, claimed

from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.idempotency_retention import DEFAULT_RETENTION, forgotten
from tenantcron.scheduler.steps.reasons import ENDS, ReasonKind, why_ended, why_unstarted
from tenantcron.scheduler.steps.retry import settle
from tenantcron.store.rows.executions import State

ROOT = Path(__file__).parents[2]
# Where executions end without a start, and the words are.
SOURCES = (
    "store/steps/claim.sql",
    "store/steps/skip.sql",
    "store/steps/replace.sql",
    "scheduler/steps/due.py",
    "provider/refresh.py",
)
WORDS = re.compile(
    r"""f?["']((?:tenant|schedule|paused|missed|still|replaced|no scheduler|concurrency)"""
    r"""(?: [^"'`]*)?|paused: [^"']*)["']"""
)


def written_reasons() -> set[str]:
    texts = [(ROOT / source).read_text(encoding="utf-8") for source in SOURCES]
    return {words for text in texts for words in WORDS.findall(text)}


def test_the_sources_have_the_reasons_that_are_looked_for() -> None:
    assert {"still running", "schedule removed", "concurrency limit reached"} < written_reasons()
    assert len(written_reasons()) >= 10


@pytest.mark.parametrize("reason", sorted(written_reasons()))
def test_every_reason_that_the_scheduler_writes_has_a_kind(reason: str) -> None:
    assert why_unstarted(reason) is not ReasonKind.OTHER


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("concurrency limit reached", ReasonKind.LIMIT),
        ("tenant concurrency limit reached (5 of 5 running)", ReasonKind.TENANT_LIMIT),
        ("tenant suspended: unpaid", ReasonKind.TENANT_INACTIVE),
        ("paused: the disk is full", ReasonKind.PAUSED),
        ("whatever else", ReasonKind.OTHER),
        (None, ReasonKind.OTHER),
    ],
)
def test_what_is_in_a_reason_beside_its_kind_does_not_count(
    reason: str | None, kind: ReasonKind
) -> None:
    assert why_unstarted(reason) is kind


@pytest.mark.parametrize("outcome", AttemptOutcome)
def test_every_way_to_end_has_a_count_before_the_first_one_comes(outcome: AttemptOutcome) -> None:
    allowed = claimed(attempts_allowed=1)
    state = State(settle(Attempt(allowed, outcome), SETTINGS, Random(1)).state)  # noqa: S311 -- no secret
    assert (state, why_ended(state, outcome, "some words")) in ENDS


def test_an_operators_words_never_become_a_kind() -> None:
    for words in ("paused: x", "concurrency limit reached", "a customer's name"):
        kind = why_ended(State.CANCELLED, AttemptOutcome.FAILED, words)
        assert kind is ReasonKind.CANCELLED


def test_a_retry_that_would_come_too_late_is_a_kind_of_its_own() -> None:
    reason = f"{forgotten(DEFAULT_RETENTION)} (the attempt before it: HTTP 503)"
    kind = why_ended(State.DEAD, AttemptOutcome.FAILED, reason)
    assert (State.DEAD, kind) == (State.DEAD, ReasonKind.KEY_FORGOTTEN)
