"""`tenantcron schedule trigger --wait`, with a scheduler as a separate process."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet import Shell, manifest
from support.ports import free_port
from support.scraping import until_served

HANDLERS = """
import logging
from tenantcron.targets.python.registry import saga

@saga("good")
async def good(execution):
    logging.getLogger("billing").warning("42 invoices")
    return {"invoices": 42}

@saga("bad")
async def bad(execution):
    raise ValueError("no tariff")
"""


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Iterator[Shell]:
    yearly = "cron: '0 0 1 1 *', retry: {max_attempts: 1}"
    text = manifest("acme", {"good": yearly, "bad": yearly})
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "waited_for.py").write_text(HANDLERS, encoding="utf-8")
    shell, port = Shell(tmp_path, database_url), free_port()
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    options = ("--handlers", "waited_for", "--metrics-port", str(port))
    process = shell.start("run", *options, PYTHONPATH=str(tmp_path))
    try:
        until_served(port)
        yield shell
    finally:
        process.terminate()
        process.communicate()


def test_the_outcome_is_shown_with_its_result_and_its_log(shell: Shell) -> None:
    called = shell("schedule", "trigger", "acme/good", "--wait")

    assert called.code == 0
    assert "  SUCCEEDED" in called.out.splitlines()[0]
    assert 'result: {"invoices": 42}' in called.out
    assert "42 invoices" in called.out.split("log:")[1]


def test_an_execution_that_fails_exits_with_1_and_shows_the_error(shell: Shell) -> None:
    called = shell("schedule", "trigger", "acme/bad", "--wait", "--format", "json")

    outcome = json.loads(called.out)["outcome"]
    assert called.code == 1
    assert outcome["state"] == "DEAD"
    assert "no tariff" in outcome["attempts"][0]["error"]
