"""Whatever the bytes: an answer, places inside the document, and data that is JSON."""

import json
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.damage import is_inside, lines_of, mutations

from tenantcron.manifests.document import load
from tenantcron.manifests.loading import yaml_events

YAML = b"""\
%YAML 1.2
---
version: "1.0"
tenant: acme  # a comment
metadata: {name: Acme Energy, tags: [a, 'b', "c\\u00e4\\U0001F600"]}
schedules:
  nightly: &nightly {daily: {at: 02:00}, timezone: Europe/London}
  other: {<<: *nightly, enabled: true, rate: 1.5e3, big: 0x1F}
sagas:
  - name: generate_monthly_invoice
    trigger:
      scheduled:
        cron: "0 2 * * mon-fri"
        payload: {report: ~, list: [1, -2, [3]]}
    script: |
      def run(context):
        return "ok"
    filter: >-
      folded
      text
  - ? name
    : reconcile
    copy: *nightly
"""
JSON = b"""\
{"version": "1.0", "sagas": [
  {"name": "bill", "trigger": "scheduled:a:0 * * * *", "on": [true, false, null, -1.5e3]},
  {"name": "caf\\u00e9 \\ud83d\\ude00", "script": "def run():\\n\\tpass\\u2028"}
]}
"""
Syntax = Literal["yaml", "json"]
SYNTAXES = st.sampled_from(["yaml", "json"])


def check(content: bytes, syntax: Syntax) -> None:
    """Load and look at all that comes back."""
    loaded = load(content, syntax=syntax)
    lines = lines_of(content)
    for problem in loaded.problems:
        assert is_inside(problem.span, lines), problem
        assert problem.message
        assert "\n" not in problem.message
    if loaded.document is None:
        assert loaded.problems
    else:
        json.dumps(loaded.document.data, allow_nan=False, ensure_ascii=False).encode()
        assert is_inside(loaded.document.place(()), lines)


@given(content=st.binary(max_size=200), syntax=SYNTAXES)
@settings(max_examples=600)
def test_random_bytes_get_an_answer(content: bytes, syntax: Syntax) -> None:
    check(content, syntax)


@given(text=st.text(max_size=100), syntax=SYNTAXES)
@settings(max_examples=600)
def test_random_text_gets_an_answer(text: str, syntax: Syntax) -> None:
    check(text.encode(), syntax)


@given(content=mutations(YAML))
@settings(max_examples=600)
def test_mutated_yaml_gets_an_answer(content: bytes) -> None:
    check(content, "yaml")


@given(content=mutations(JSON), syntax=SYNTAXES)
@settings(max_examples=400)
def test_mutated_json_gets_an_answer(content: bytes, syntax: Syntax) -> None:
    check(content, syntax)


@given(content=mutations(YAML))
@settings(max_examples=150)
def test_mutated_yaml_gets_an_answer_without_libyaml(content: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_events, "readers", lambda _size: (yaml_events.read_pure,))
        check(content, "yaml")


def test_the_documents_that_are_mutated_are_good() -> None:
    assert [problem.code for problem in load(YAML, syntax="yaml").problems] == ["TC013"]
    assert load(JSON, syntax="json").problems == ()
