"""Any bytes can be loaded: positions are inside the document, and the data is JSON."""

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
    """Load a document and check the result."""
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
def test_random_bytes_can_be_loaded(content: bytes, syntax: Syntax) -> None:
    check(content, syntax)


@given(text=st.text(max_size=100), syntax=SYNTAXES)
@settings(max_examples=600)
def test_random_text_can_be_loaded(text: str, syntax: Syntax) -> None:
    check(text.encode(), syntax)


@given(content=mutations(YAML))
@settings(max_examples=600)
def test_mutated_yaml_can_be_loaded(content: bytes) -> None:
    check(content, "yaml")


@given(content=mutations(JSON), syntax=SYNTAXES)
@settings(max_examples=400)
def test_mutated_json_can_be_loaded(content: bytes, syntax: Syntax) -> None:
    check(content, syntax)


@given(content=mutations(YAML))
@settings(max_examples=150)
def test_mutated_yaml_can_be_loaded_without_libyaml(content: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_events, "readers", lambda _size: (yaml_events.read_pure,))
        check(content, "yaml")


def test_the_documents_before_mutation_are_valid() -> None:
    assert [problem.code for problem in load(YAML, syntax="yaml").problems] == ["TC013"]
    assert load(JSON, syntax="json").problems == ()
