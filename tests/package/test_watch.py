"""The dashboard and the alerts of docs/howto/watch ask for metrics that there are, in the language of Prometheus; and
the page names every event and every metric.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import tahoe.events
from tahoe.catalog.server.metrics import Metrics
from tahoe.events import (
    BackgroundJob,
    Checkpoint,
    Commit,
    CommitFailed,
    Conflict,
    Event,
    QueryPlanned,
    Retry,
    StreamBatch,
)
from tahoe.events.kinds import KINDS
from tahoe.events.listeners import emit
from tahoe.events.telemetry import METRICS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "howto/watch.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((DOCS / "howto/watch/dashboard.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((DOCS / "howto/watch/alerts.yml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]

of_any = {"table": "file:///t", "duration_seconds": 0.5}
of_commit = {"read_version": 0, "operation": "WRITE", "attempts": 1}
files = {"files_added": 1, "bytes_added": 1, "files_removed": 1, "bytes_removed": 1, "log_bytes": 1}
EVENTS: list[Event] = [
    Commit(
        **of_any,
        **of_commit,
        **files,
        version=1,
        is_blind_append=True,
        is_pending=False,
        txn_id="",
        engine="",
        metrics={"n": 1},
    ),
    Conflict(**of_any, **of_commit, cause="C", winner=1),
    CommitFailed(**of_any, **of_commit, cause="C", is_in_doubt=False),
    Retry(**of_any, what="put", attempt=1, cause="C"),
    QueryPlanned(**of_any, version=1, engine="spark", files_read=1, files_skipped=1, bytes_read=1, bytes_skipped=1),
    Checkpoint(**of_any, version=1, policy="v2", files=1, size_bytes=1),
    BackgroundJob(**of_any, job="after_commit", version=1, waited_seconds=1.0, cause="C"),
    StreamBatch(**of_any, side="sink", version=1),
]


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of each metric that Prometheus has: of every event, and of the catalog's server."""
    reader = PrometheusMetricReader()
    meters = MeterProvider([reader])
    with tahoe.events.use_opentelemetry(None, meters):
        for event in EVENTS:
            emit(type(event), lambda event=event: event)
    server = Metrics()
    server.count("table", 200, 0.1)
    found: dict[str, set[str]] = {}
    for family in [*REGISTRY.collect(), *text_string_to_metric_families(server.as_text())]:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    meters.shutdown()
    return found


def selectors(node: Any) -> Iterator[Any]:
    """The metrics that an expression names, with their conditions."""
    match node:
        case promql_parser.VectorSelector():
            yield node
        case promql_parser.MatrixSelector():
            yield from selectors(node.vector_selector)
        case _:
            for name in ("expr", "lhs", "rhs", "param"):
                if (inside := getattr(node, name, None)) is not None:
                    yield from selectors(inside)
            for inside in getattr(node, "args", None) or ():
                yield from selectors(inside)


def grouped(expression: str) -> set[str]:
    return {name.strip() for names in re.findall(r"by \(([^)]*)\)", expression) for name in names.split(",")}


QUERIES = {
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    },
    **{rule["alert"]: rule["expr"] for rule in RULES},
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_names_metrics_and_labels_that_there_are(name: str, exported: dict[str, set[str]]) -> None:
    query = QUERIES[name].replace("$__rate_interval", "5m")
    asked = list(selectors(promql_parser.parse(query)))
    assert asked
    assert len(asked) == len(re.findall(r"\btahoe_\w+?(?=\{|\[| unless| offset)", query))
    labels = set[str]()
    for selector in asked:
        assert selector.name in exported
        assert {matcher.name for matcher in selector.matchers.matchers} <= exported[selector.name]
        labels |= exported[selector.name]
    assert grouped(query) <= labels


def test_every_metric_is_in_the_dashboard(exported: dict[str, set[str]]) -> None:
    shown = {
        selector.name
        for query in QUERIES.values()
        for selector in selectors(promql_parser.parse(query.replace("$__rate_interval", "5m")))
    }
    ours = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in exported if name.startswith("tahoe_")}
    assert ours <= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}


def test_the_dashboard_is_one_that_grafana_can_draw() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    text = json.dumps(DASHBOARD)
    assert {*re.findall(r"\$\{?(?!__)(\w+)", text)} <= variables
    places = [
        (x, panel["gridPos"]["y"])
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_tells_of_labels_that_it_has(rule: dict[str, Any]) -> None:
    told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert told <= grouped(rule["expr"])
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))


def test_every_event_makes_metrics_and_every_metric_comes_of_one(exported: dict[str, set[str]]) -> None:
    assert {type(event) for event in EVENTS} == set(KINDS)
    assert {name.split("_")[0] for name in exported} >= {"tahoe"}
    prefixes = {metric.name.replace(".", "_") for metric in METRICS}
    assert {prefix for prefix in prefixes if not any(name.startswith(prefix) for name in exported)} == set()


def test_the_page_has_every_event_and_every_metric() -> None:
    assert {kind.name for kind in KINDS} <= set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert {metric.name for metric in METRICS} == set(re.findall(r"`(tahoe\.[a-z_.]+)`", PAGE)) & {
        metric.name for metric in METRICS
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_is_described(kind: type[Event]) -> None:
    own = {field.name for field in fields(kind)} - {field.name for field in fields(Event)}
    described = set(re.findall(r"(\w+)(?=(?:, \w+)*:)", kind.__doc__.partition("Attributes:")[2]))
    assert own <= described
