"""What does it cost to be told of commits? One process appends small rows without Spark, and tells of one in two
commits.

A commit is timed with its work in the background, because that is told, too.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tahoe
from benchmarks.measure import FOLDER, Comparison, report
from tahoe.events import Event
from tahoe.storage.background import finish_background

ROW = pa.table({"id": pa.array([1], pa.int64())})
PAIRS = int(os.environ.get("PAIRS", "400"))

# A table is left after so many pairs, so that its log stays short.
PAIRS_OF_A_TABLE = 50


class AsJson(logging.Formatter):
    """The fields of an event as a line of JSON, as docs/howto/watch.md has it."""

    usual = frozenset(vars(logging.makeLogRecord({})))

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({name: value for name, value in vars(record).items() if name not in self.usual})


@contextmanager
def logged(folder: Path) -> Iterator[None]:
    logger = logging.getLogger("tahoe.events")
    handler = logging.FileHandler(folder / "events.jsonl")
    handler.setFormatter(AsJson())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def at_level_info() -> Iterator[None]:
    logger = logging.getLogger("tahoe.events")
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(logging.CRITICAL)


def telemetry() -> Callable[[Event], object]:
    """The listener of OpenTelemetry's SDK, with instruments and exporters that were made before."""
    traces = TracerProvider()
    traces.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    subscription = tahoe.events.use_opentelemetry(traces, MeterProvider([InMemoryMetricReader()]))
    subscription.remove()
    return subscription._listener


def compared(folder: Path, question: str, told: Callable[[], AbstractContextManager[object]]) -> Comparison:
    """Time commits of which one in each pair is told; the one that comes first in the other is second."""
    milliseconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(PAIRS):
        if number % PAIRS_OF_A_TABLE == 0:
            table = tahoe.Table(str(folder / str(number)))
            table.append(ROW)
            finish_background()
        for is_told in (True, False) if number % 2 else (False, True):
            with told() if is_told else nullcontext():
                began = time.perf_counter()
                table.append(ROW)
                finish_background()
                milliseconds[is_told].append((time.perf_counter() - began) * 1000)
    return Comparison(
        question=question, peer="nobody is told", ours=milliseconds[True], theirs=milliseconds[False], unit="ms"
    )


def run() -> list[Comparison]:
    folder = FOLDER / "events"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    listener = telemetry()
    found = [compared(folder / "function", "a function is told of commits", lambda: tahoe.on("commit", _nothing))]
    with logged(folder):
        found.append(compared(folder / "logging", "commits are logged as JSON into a file", at_level_info))
    found.append(
        compared(folder / "telemetry", "OpenTelemetry is told of all events", lambda: tahoe.on(Event, listener))
    )
    shutil.rmtree(folder)
    return found


def _nothing(_: Event) -> None:
    """A listener."""


if __name__ == "__main__":
    report(*run())
