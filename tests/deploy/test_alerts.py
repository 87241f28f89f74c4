"""Alert rules and the dashboard: they use existing metrics, and alerts fire when they should."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.promtool import promtool

from tenantcron.cli.main import COMMANDS
from tenantcron.scheduler.inspect.audit_findings import AuditCode
from tenantcron.scheduler.metrics.counts import ENDS, LATENESS, REQUESTS
from tenantcron.scheduler.metrics.prometheus import METRICS, NO_REASON, MetricType
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.tokens.token_minting import MintFailure
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.rows.executions import State

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"\btenantcron_[a-z_]+")
RECORD = re.compile(r"\btenantcron:\w+:\w+")
MATCHER = re.compile(r'\b(\w+)(=~|!~|!=|=)"([^"]*)"')
# The possible values of labels.
WORDS = {
    "state": {*State},
    "reason": {*ReasonCode, NO_REASON, *MintFailure},
    "cause": {"overdue", "set_aside", "auto_paused"},
    "code": {*AuditCode},
    "outcome": {*AttemptOutcome},
    "when": {"now", "later"},
    "le": {"5.0", "0.1"},
}


def all_rules() -> list[dict[str, Any]]:
    groups = YAML(typ="safe").load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def rules() -> list[dict[str, Any]]:
    return [rule for rule in all_rules() if "alert" in rule]


def records() -> set[str]:
    """Return the names of the recording rules."""
    return {rule["record"] for rule in all_rules() if "record" in rule}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DEPLOY / "dashboard.json").read_text("utf-8"))[
        "panels"
    ]
    return found


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in all_rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def samples() -> dict[str, str]:
    """Return the names of all samples, with the metric of each."""
    parts = {MetricType.HISTOGRAM: ("_bucket", "_count", "_sum")}
    return {
        f"{metric.full_name}{part}": metric.full_name
        for metric in METRICS
        for part in parts.get(metric.type, ("",))
    }


def run(*arguments: str | Path) -> None:
    done = subprocess.run([promtool(), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_fire_when_their_tests_say_so() -> None:
    run("test", "rules", DEPLOY / "alerts.test.yml")


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    tests = (DEPLOY / "alerts.test.yml").read_text(encoding="utf-8")
    fired = set(re.findall(r'ALERTS\{alertname="(\w+)"', tests))
    assert fired == {rule["alert"] for rule in rules()}


def test_the_page_on_metrics_maps_questions_to_existing_metrics_and_alerts() -> None:
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    watched = page.split("## What to watch")[1].split("\n## ")[0]
    assert set(re.findall(r"`(tenantcron_\w+)`", watched)) <= {item.full_name for item in METRICS}
    assert set(re.findall(r"`(tenantcron:[\w:]+)`", watched)) <= records()
    alerts = set(re.findall(r"`(Tenantcron\w+)`", watched))
    assert alerts <= {rule["alert"] for rule in rules()}
    assert alerts


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_has_a_severity_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description"}
    named = re.findall(r"`tenantcron (\w[\w-]*)", rule["annotations"]["description"])
    assert set(named) <= set(COMMANDS)


@pytest.mark.parametrize("query", [*queries()])
def test_every_query_uses_existing_metrics_and_labels(query: str) -> None:
    names, recorded = NAME.findall(query), RECORD.findall(query)
    assert names or recorded
    assert set(names) <= samples().keys()
    assert set(recorded) <= records()
    for label, _, words in MATCHER.findall(query):
        assert set(words.split("|")) <= WORDS[label], label


def test_the_bounds_of_objectives_are_bounds_of_buckets() -> None:
    # A bound that does not exist would select no series.
    bounds = {
        "tenantcron_execution_lateness_seconds_bucket": {str(bound) for bound in LATENESS},
        "tenantcron_api_request_duration_seconds_bucket": {str(bound) for bound in REQUESTS},
    }
    found = re.findall(r'(tenantcron_\w+_bucket)\{le="([^"]+)"\}', "\n".join(queries()))
    assert len(found) == 8
    assert [(name, bound) for name, bound in found if bound not in bounds[name]] == []


def test_cluster_metrics_are_never_summed_up_over_processes() -> None:
    first = [metric.name for metric in METRICS].index("database_up")
    of_cluster = {metric.full_name for metric in METRICS[first:]}
    for query in queries():
        summed = re.findall(r"sum[^(]*(?:\(\w+\) )?\((tenantcron_\w+)", query)
        assert not of_cluster & set(summed), query


def test_the_dashboard_shows_every_metric() -> None:
    shown = {samples()[name] for panel in panels() for name in NAME.findall(json.dumps(panel))}
    assert shown == {metric.full_name for metric in METRICS}


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    places = [
        (x, y)
        for panel in panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_prometheus_understands_every_query_of_the_dashboard(tmp_path: Path) -> None:
    expanded = [query.replace("$__rate_interval", "5m") for query in queries()]
    records = [
        {"record": f"query_{number}", "expr": query} for number, query in enumerate(expanded)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": records}]}), "utf-8")
    run("check", "rules", file)


def test_counters_of_alerts_exist_before_their_first_increase() -> None:
    # Prometheus sees no increase of a series that did not exist before.
    counted = {(state.value, code or NO_REASON) for state, code in ENDS}
    for query in queries():
        for block in re.findall(r"tenantcron_executions_total\{([^}]*)\}", query):
            labels = {label: words.split("|") for label, sign, words in MATCHER.findall(block)}
            for state in labels["state"]:
                for reason in labels.get("reason", []):
                    assert (state, reason) in counted
