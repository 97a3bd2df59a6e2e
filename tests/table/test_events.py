"""What is told of a table: to listeners, to Python's logging, and to OpenTelemetry. Without Spark."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import tahoe
from tahoe.errors import (
    CommandCancelledError,
    CommitOutcomeUnknownError,
    ConcurrentAppendException,
    InvalidArgumentError,
    StorageUnavailableError,
    WriteAlreadyRecordedError,
)
from tahoe.events import BackgroundJob, Checkpoint, Commit, CommitFailed, Conflict, Event, QueryPlanned, Retry
from tahoe.events.kinds import KINDS, without_credentials
from tahoe.events.listeners import _listeners, is_wanted
from tahoe.protocol.changes.conflict import EVERYTHING, Intent
from tahoe.protocol.log.actions import Remove, Txn
from tahoe.storage.background import finish_background
from tahoe.storage.cloud import _repeated
from tahoe.storage.env import Watch
from tahoe.storage.memory import Effect, Fault, FaultPlan, Operation
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.transaction import Transaction
from tahoe.table.reading.snapshot import load_snapshot
from tests.table.builders import add, make_log, memory_env


@contextmanager
def heard(kind: type[Event] = Event) -> Iterator[list[Event]]:
    found: list[Event] = []
    with tahoe.on(kind, found.append):
        yield found


def transaction(log, path, read_version=0, **fields):
    base = load_snapshot(log, read_version)
    return Transaction(log=log, base=base, actions=[add(path, size_bytes=7)], operation="WRITE", **fields)


def table_at(path, rows=4):
    tahoe.Table(str(path)).append(pa.table({"n": list(range(rows))}))
    finish_background()
    return tahoe.Table(str(path))


# --- what is told


def test_a_commit_is_told_with_what_it_changed():
    log = make_log([[add("a", size_bytes=5)]])
    mine = Transaction(
        log=log,
        base=load_snapshot(log),
        actions=[add("b", size_bytes=7), add("c", size_bytes=2), Remove(path="a", size_bytes=5), Remove(path="z")],
        operation="OPTIMIZE",
        metrics={"numAddedFiles": 2},
        parameters={"predicate": "secret = 'value of a row'"},
        user_metadata="mine alone",
    )
    with heard(Commit) as found:
        assert mine.commit() == 1
    (commit,) = found
    data = log.env.store.get("_delta_log/00000000000000000001.json")
    told = commit.to_dict()
    assert told.pop("duration_seconds") >= 0
    assert told.pop("ended_ns") > 1_700_000_000_000_000_000
    assert told.pop("engine").startswith("tahoe/")
    assert told.pop("txn_id") == log.commit_info(1).txn_id
    assert told == {
        "event": "commit",
        "table": log.url,
        "version": 1,
        "read_version": 0,
        "operation": "OPTIMIZE",
        "attempts": 1,
        "files_added": 2,
        "bytes_added": 9,
        "files_removed": 2,
        "bytes_removed": 5,
        "log_bytes": len(data),
        "is_blind_append": False,
        "is_pending": False,
        "metrics": {"numAddedFiles": 2},
    }


def test_an_attempt_that_another_writer_won_is_a_retry_and_the_commit_counts_it():
    log = make_log([[add("a")], [add("b")]])
    with heard() as found:
        transaction(log, "mine").commit()
    assert [type(event) for event in found if not isinstance(event, BackgroundJob)] == [Retry, Commit]
    retry = found[0]
    assert (retry.what, retry.attempt, retry.version, retry.cause) == ("commit", 1, 1, "unknown")
    assert next(event for event in found if isinstance(event, Commit)).attempts == 2


def test_a_conflict_is_told_with_its_cause_and_the_winner():
    log = make_log([[add("a")]])
    reads = transaction(log, "mine", intent=Intent(reads=EVERYTHING))
    transaction(log, "theirs", intent=Intent(reads=EVERYTHING)).commit()
    with heard() as found, pytest.raises(ConcurrentAppendException):
        reads.commit()
    (conflict,) = found
    assert isinstance(conflict, Conflict)
    assert (conflict.cause, conflict.winner, conflict.read_version, conflict.operation, conflict.attempts) == (
        "DELTA_CONCURRENT_APPEND",
        1,
        0,
        "WRITE",
        1,
    )


class Refuses(Watch):
    def before_put(self):
        raise CommandCancelledError(reason="nobody wants it")


def test_a_commit_that_fails_is_told_with_the_condition_of_its_error():
    log = make_log([[add("a")]])
    with heard() as found, pytest.raises(CommandCancelledError):
        transaction(replace(log, env=replace(log.env, watch=Refuses())), "mine").commit()
    (failed,) = found
    assert isinstance(failed, CommitFailed)
    assert (failed.cause, failed.is_in_doubt, failed.operation) == ("OPERATION_CANCELED", False, "WRITE")


def test_a_put_without_an_answer_is_a_retry_and_in_the_end_a_failure_in_doubt():
    every = [Fault(effect=Effect.RAISE_BEFORE, operation=Operation.PUT_IF_ABSENT, nth=n, times=1) for n in range(2, 5)]
    log = make_log([[add("a")]], memory_env(faults=FaultPlan(*every)))
    with heard() as found, pytest.raises(CommitOutcomeUnknownError):
        transaction(log, "mine").commit()
    *retries, failed = found
    assert [(retry.what, retry.attempt, retry.version, retry.cause) for retry in retries] == [
        ("put", n, 1, "DELTA_STORAGE_UNAVAILABLE") for n in (1, 2, 3)
    ]
    assert isinstance(failed, CommitFailed)
    assert (failed.cause, failed.is_in_doubt) == ("DELTA_COMMIT_OUTCOME_UNKNOWN", True)


def test_a_write_that_the_table_has_already_is_no_failure():
    log = make_log([[add("a")]])
    actions = [Txn(app_id="app", version=5), add("mine")]
    base = load_snapshot(log)
    mine = Transaction(
        log=log, base=base, actions=actions, operation="WRITE", intent=Intent(app_ids={"app"}), txn_app_id="app"
    )
    replace(mine, txn_app_id=None).commit()
    with heard() as found, pytest.raises(WriteAlreadyRecordedError):
        mine.commit()
    assert found == []


def test_a_checkpoint_is_told_with_its_size():
    log = make_log([[add("a"), add("b")]])
    with heard() as found:
        checkpoint = write_checkpoint(load_snapshot(log))
    (told,) = found
    assert isinstance(told, Checkpoint)
    assert (told.version, told.policy, told.files) == (0, "classic", 2)
    assert told.size_bytes == sum(len(log.env.store.get(file.key)) for file in checkpoint.files)


@pytest.mark.parametrize("fails", [False, True])
def test_work_in_the_background_is_told_when_it_ends(tmp_path, monkeypatch, fails):
    table = table_at(tmp_path / "t")
    if fails:
        monkeypatch.setattr("tahoe.table.commit.post_commit_hooks.write_version_checksum", lambda *_: 1 / 0)
    with heard(BackgroundJob) as found:
        table.append(pa.table({"n": [1]}))
        finish_background()
    (job,) = found
    assert (job.job, job.version, job.table) == ("after_commit", 1, table.url)
    assert job.cause == ("ZeroDivisionError" if fails else None)
    assert job.waited_seconds >= 0


def test_a_query_is_told_with_the_files_that_it_reads_and_leaves_out(tmp_path):
    table = table_at(tmp_path / "t")
    table.append(pa.table({"n": [100, 200]}))
    sizes = table.files()["size_bytes"].to_pylist()
    with heard(QueryPlanned) as found:
        assert table.to_arrow(filter="n > 50").num_rows == 2
    (query,) = found
    total = table.snapshot().live.size_bytes
    assert (query.version, query.engine, query.purpose) == (1, "arrow", "rows")
    assert (query.files_read, query.files_skipped) == (1, 1)
    assert query.bytes_read + query.bytes_skipped == total == sum(sizes)
    assert query.bytes_read in sizes


def test_one_read_is_one_event(tmp_path):
    table = table_at(tmp_path / "t")
    reads = [
        table.to_arrow,
        table.count,
        table.head,
        table.scan,
        lambda: table.to_batches().read_all(),
        lambda: table.to_pyarrow_dataset().to_table(),
    ]
    for read in reads:
        with heard(QueryPlanned) as found:
            read()
        assert len(found) == 1


def test_planning_of_maintenance_is_no_query(tmp_path):
    table = table_at(tmp_path / "t")
    table.append(pa.table({"n": [7]}))
    with heard(QueryPlanned) as found:
        table.optimize()
        table.compute_statistics()
        table.vacuum(dry_run=True)
    assert found == []


def test_vacuum_and_optimize_are_told_by_their_commits(tmp_path):
    table = table_at(tmp_path / "t")
    table.append(pa.table({"n": [7]}))
    with heard(Commit) as found:
        table.optimize()
        table.vacuum()
    assert [commit.operation for commit in found] == ["OPTIMIZE", "VACUUM START", "VACUUM END"]


def test_a_request_that_an_object_store_did_not_answer_is_a_retry(monkeypatch):
    monkeypatch.setattr("tahoe.storage.cloud.time.sleep", lambda _: None)
    answers = iter([StorageUnavailableError(table="s3://b/t", operation="read", detail="no"), "yes"])

    def ask():
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    with heard() as found:
        assert _repeated(ask) == "yes"
    (retry,) = found
    assert (retry.what, retry.table, retry.attempt, retry.cause) == (
        "storage",
        "s3://b/t",
        1,
        "DELTA_STORAGE_UNAVAILABLE",
    )
    assert retry.duration_seconds > 0


# --- listeners


def test_a_listener_can_be_named_by_class_by_name_and_for_all_kinds_and_be_removed(tmp_path):
    table, found = table_at(tmp_path / "t"), []
    by_name = tahoe.on("commit", lambda event: found.append("name"))
    by_class = tahoe.on(Commit, lambda event: found.append("class"))
    tahoe.on(Checkpoint, lambda event: found.append("other")).remove()
    with tahoe.on(Event, lambda event: found.append("all")), tahoe.on("checkpoint", lambda event: found.append("no")):
        with heard(BackgroundJob):
            table.append(pa.table({"n": [1]}))
        finish_background()
    assert found[:3] == ["name", "class", "all"]
    assert {*found} == {"name", "class", "all"}
    by_name.remove()
    by_name.remove()
    by_class.remove()
    assert not by_class.is_active
    table.append(pa.table({"n": [1]}))
    finish_background()
    assert len(found) == 4  # the commit three times, and what followed in the background once
    assert not is_wanted(Commit)


def test_a_listener_that_fails_breaks_nothing_and_is_logged_once(tmp_path, caplog):
    table, found = table_at(tmp_path / "t"), []
    with caplog.at_level(logging.WARNING), tahoe.on("commit", lambda _: 1 / 0), tahoe.on("commit", found.append):
        for _ in range(3):
            table.append(pa.table({"n": [1]}))
    assert table.version == 3
    assert len(found) == 3
    (record,) = caplog.records
    assert "a listener of commit events has failed" in record.getMessage()
    assert record.exc_info is not None
    assert record.name == "tahoe"


def test_a_listener_is_called_in_the_thread_that_commits_and_is_not_told_of_itself(tmp_path):
    table, other, found = table_at(tmp_path / "t"), table_at(tmp_path / "other"), []

    def listener(commit):
        found.append((commit.table, threading.current_thread()))
        other.append(pa.table({"n": [commit.version]}))

    with tahoe.on("commit", listener):
        table.append(pa.table({"n": [1]}))
    assert found == [(table.url, threading.current_thread())]
    assert other.version == 1


def test_a_forked_process_subscribes_whatever_a_thread_of_its_parent_was_doing():
    with _listeners._lock:  # as in the moment in which another thread subscribes
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            tahoe.on("commit", print).remove()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("event", ["commits", "", None, int, Exception])
def test_an_event_that_there_is_not_is_refused_with_the_names_of_those_that_there_are(event):
    with pytest.raises(InvalidArgumentError, match="one of query_planned, commit, conflict"):
        tahoe.on(event, print)


def test_what_cannot_be_called_is_no_listener():
    with pytest.raises(InvalidArgumentError, match="a function that takes the event"):
        tahoe.on("commit", "print")


def test_nobody_who_listens_means_that_nothing_is_made(monkeypatch):
    log = make_log([[add("a")]])
    monkeypatch.setattr(Event, "__post_init__", lambda self: 1 / 0)
    assert transaction(log, "mine").commit() == 1
    assert not any(map(is_wanted, KINDS))


# --- no secrets


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///data/a b", "file:///data/a b"),
        ("s3a://KEY:SECRET@bucket/t", "s3a://bucket/t"),
        ("https://user:pa55@host:8080/t", "https://host:8080/t"),
        ("https://token@host/t", "https://host/t"),
        ("s3a://KEY:SEC@RET@bucket/t", "s3a://bucket/t"),
        ("https://host/user:name@t", "https://host/user:name@t"),
        ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
        ("https://host/t?sv=2024&sig=abc%3D", "https://host/t"),
        ("https://host/t?X-Amz-Signature=1&a=2", "https://host/t"),
        ("https://host/t?access_token=abc", "https://host/t"),
        ("https://host/t?a=1&X-Amz-Credential=abc", "https://host/t"),
        ("file:///data/really?", "file:///data/really?"),
        ("file:///data/12:30@noon/t", "file:///data/12:30@noon/t"),
    ],
)
def test_the_url_of_a_table_is_told_without_credentials(url, told):
    assert without_credentials(url) == told
    assert Checkpoint(table=url, duration_seconds=0, version=0, policy="v2", files=0, size_bytes=0).table == told


# --- logging


def test_events_are_records_with_fields_that_are_json(tmp_path, caplog):
    table = table_at(tmp_path / "t")
    with caplog.at_level(logging.DEBUG, "tahoe.events"):
        table.append(pa.table({"n": [1]}))
        table.count()
        finish_background()
    assert {record.name for record in caplog.records} == {
        f"tahoe.events.{name}" for name in ("commit", "query_planned", "background_job")
    }
    record = next(record for record in caplog.records if record.event == "commit")
    assert (record.table, record.version, record.operation) == (table.url, 1, "WRITE")
    assert record.levelno == logging.INFO
    assert record.getMessage().startswith(f"commit table={table.url} duration_seconds=0.")
    usual = vars(logging.makeLogRecord({}))
    for one in caplog.records:
        assert json.loads(json.dumps({name: value for name, value in vars(one).items() if name not in usual}))


def test_no_field_has_a_name_that_a_record_has():
    """Python's logging refuses such a field."""
    usual = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    assert {name for kind in KINDS for name in ("event", *(f.name for f in fields(kind)))}.isdisjoint(usual)


def test_the_stack_is_not_searched_for_the_line_that_logs(caplog, monkeypatch):
    """That is the same line for every event, and the search takes as long as all the rest."""
    monkeypatch.setattr(logging.Logger, "findCaller", lambda *_, **__: 1 / 0)
    log = make_log([[add("a")]])
    with caplog.at_level(logging.INFO, "tahoe.events"):
        transaction(log, "mine").commit()
    (record,) = caplog.records
    assert (record.event, record.module, record.funcName) == ("commit", "listeners", "emit")


def test_a_handler_that_does_not_ask_for_the_text_of_an_event_does_not_pay_for_it(caplog, monkeypatch):
    log, logger, handler, found = (
        make_log([[add("a")]]),
        logging.getLogger("tahoe.events.commit"),
        logging.Handler(),
        [],
    )
    monkeypatch.setattr(Event, "__str__", lambda self: 1 / 0)
    monkeypatch.setattr(handler, "emit", found.append)
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)
    with caplog.at_level(logging.INFO, "tahoe.events.commit"):
        transaction(log, "mine").commit()
    assert [record.files_added for record in found] == [1]


def test_a_kind_is_logged_alone(tmp_path, caplog):
    table = table_at(tmp_path / "t")
    with caplog.at_level(logging.INFO, "tahoe.events.commit"):
        table.append(pa.table({"n": [1]}))
        table.count()
        finish_background()
    assert [record.name for record in caplog.records] == ["tahoe.events.commit"]


# --- OpenTelemetry


@pytest.fixture
def telemetry():
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    traces = TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(spans))
    with tahoe.events.use_opentelemetry(traces, MeterProvider([reader])):
        yield reader, spans, traces


def points(reader):
    """Each metric with its unit and, for each of its attributes, the sum or the count."""
    data = reader.get_metrics_data()
    return {
        metric.name: (
            metric.unit,
            {
                tuple(sorted((k, v) for k, v in point.attributes.items() if k != "tahoe.table")): getattr(
                    point, "count", None
                )
                or point.value
                for point in metric.data.data_points
            },
        )
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_events_are_metrics(tmp_path, telemetry):
    reader, _, _ = telemetry
    table = table_at(tmp_path / "t")
    table.append(pa.table({"n": [100]}))
    assert table.count("n > 50") == 1
    finish_background()
    found = points(reader)
    write = ("tahoe.operation", "WRITE")
    assert found["tahoe.commit.duration"][0] == "s"
    assert found["tahoe.commit.duration"][1][(write,)] == 2
    assert found["tahoe.commit.files"][1][(("tahoe.change", "added"), write)] == 2
    assert found["tahoe.query.files"] == (
        "{file}",
        {(("tahoe.choice", "read"),): 1, (("tahoe.choice", "skipped"),): 1},
    )
    assert found["tahoe.query.size"][0] == "By"
    assert found["tahoe.background_job.duration"][1][(("tahoe.job", "after_commit"),)] == 2
    assert "tahoe.conflicts" not in found


def test_a_counter_is_told_of_a_zero_once_for_each_set_of_attributes(tmp_path, monkeypatch):
    """Most commits remove no file. The first 0 shows that what is added later is an increase."""
    told, add_of_sdk = [], Counter.add

    def add(self, value, attributes):
        told.append((self.name, attributes["tahoe.change"], value))
        add_of_sdk(self, value, attributes)

    monkeypatch.setattr(Counter, "add", add)
    reader = InMemoryMetricReader()
    with tahoe.events.use_opentelemetry(TracerProvider(), MeterProvider([reader])):
        table = table_at(tmp_path / "t")
        for _ in range(2):
            table.append(pa.table({"n": [1]}))
        table.overwrite(pa.table({"n": [1]}))
        finish_background()
    files = [(change, value) for name, change, value in told if name == "tahoe.commit.files"]
    assert files == [("added", 1), ("removed", 0), ("added", 1), ("added", 1), ("added", 1), ("removed", 3)]
    write = ("tahoe.operation", "WRITE")
    assert points(reader)["tahoe.commit.files"][1][(("tahoe.change", "removed"), write)] == 3


def test_a_conflict_is_a_metric_and_a_span_that_has_failed(telemetry):
    reader, spans, _ = telemetry
    log = make_log([[add("a")], [add("b")]])
    with pytest.raises(ConcurrentAppendException):
        transaction(log, "mine", intent=Intent(reads=EVERYTHING)).commit()
    (counted,) = points(reader)["tahoe.conflicts"][1].items()
    assert counted == ((("error.type", "DELTA_CONCURRENT_APPEND"), ("tahoe.operation", "WRITE")), 1)
    (span,) = [span for span in spans.get_finished_spans() if span.name == "tahoe.conflict"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "DELTA_CONCURRENT_APPEND"


def test_events_are_spans_below_that_of_the_program_with_the_times_of_the_work(tmp_path, telemetry):
    _, spans, traces = telemetry
    with traces.get_tracer("program").start_as_current_span("nightly"), heard(Commit) as found:
        table_at(tmp_path / "t")
    mine, outer = (
        next(span for span in spans.get_finished_spans() if span.name == name) for name in ("tahoe.commit", "nightly")
    )
    (commit,) = found
    assert mine.parent.span_id == outer.context.span_id
    assert outer.start_time <= mine.start_time <= mine.end_time <= outer.end_time
    assert mine.end_time == commit.ended_ns
    assert (mine.end_time - mine.start_time) / 1e9 == pytest.approx(commit.duration_seconds, abs=1e-6)
    assert mine.attributes["tahoe.version"] == 0
    assert mine.attributes["tahoe.operation"] == commit.operation


def test_the_global_providers_are_told_once_however_often_it_is_asked_for():
    with tahoe.events.use_opentelemetry() as first:
        assert tahoe.events.use_opentelemetry() is first
    assert not first.is_active
    with tahoe.events.use_opentelemetry() as second:
        assert second is not first


PROGRAM = """
import sys
{before}
import pyarrow as pa
import tahoe
tahoe.Table({path!r}).append(pa.table({{"n": [1]}}))
print(any(name.startswith("opentelemetry") for name in sys.modules))
"""
HIDDEN = """
import importlib.abc
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def run(path, before="", **environment):
    program = PROGRAM.format(before=before, path=str(path / "t"))
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_opentelemetry_is_imported_only_if_it_is_asked_for(tmp_path):
    assert run(tmp_path).stdout == "False\n"
    assert run(tmp_path, TAHOE_OPENTELEMETRY="1").stdout == "True\n"


def test_without_the_package_it_is_said_what_to_install(tmp_path):
    done = run(tmp_path, HIDDEN, TAHOE_OPENTELEMETRY="true")
    assert "OpenTelemetry needs the package opentelemetry-api, which is not installed" in done.stderr
    assert run(tmp_path, HIDDEN).stdout == "False\n"
