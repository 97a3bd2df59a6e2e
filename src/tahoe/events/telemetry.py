"""Events as metrics and traces of OpenTelemetry. Imported only if they are asked for.

Metrics are named as OpenTelemetry's conventions have it: dots between words, units apart. Prometheus has them with
underscores, the unit, and `_total` behind counters: `tahoe_commit_duration_seconds_bucket`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tahoe._version import VERSION
from tahoe.errors import PackageMissingError
from tahoe.events.kinds import (
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
from tahoe.events.listeners import Subscription, on

try:
    from opentelemetry import metrics, trace
except ModuleNotFoundError as missing:
    raise PackageMissingError(
        table="tahoe.events.use_opentelemetry", what="OpenTelemetry", package="opentelemetry-api"
    ) from missing

_Attributes: TypeAlias = Mapping[str, str | int | float | bool]

# From a commit on a local disk to an OPTIMIZE of minutes.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        kind: a histogram is of seconds.
    """

    name: str
    kind: Literal["counter", "histogram"]
    unit: str
    description: str


METRICS: tuple[Metric, ...] = (
    Metric("tahoe.commit.duration", "histogram", "s", "How long commits took, without the writing of data files"),
    Metric("tahoe.commit.files", "counter", "{file}", "Files that commits added and removed"),
    Metric("tahoe.commit.size", "counter", "By", "The size of the files that commits added and removed"),
    Metric("tahoe.commit.failures", "counter", "{commit}", "Commits that failed for another reason than a conflict"),
    Metric("tahoe.conflicts", "counter", "{commit}", "Commits that were refused because of another writer's"),
    Metric("tahoe.retries", "counter", "{retry}", "What was tried again"),
    Metric("tahoe.query.planning.duration", "histogram", "s", "How long it took to choose the files of a query"),
    Metric("tahoe.query.files", "counter", "{file}", "Files that queries read and left out"),
    Metric("tahoe.query.size", "counter", "By", "The size of the files that queries read and left out"),
    Metric("tahoe.checkpoint.duration", "histogram", "s", "How long it took to write a checkpoint"),
    Metric("tahoe.checkpoint.size", "counter", "By", "The size of the checkpoints that were written"),
    Metric("tahoe.background_job.duration", "histogram", "s", "How long jobs in the background took"),
    Metric("tahoe.background_job.wait", "histogram", "s", "How long jobs in the background waited for earlier ones"),
    Metric("tahoe.stream.batch.duration", "histogram", "s", "How long it took to choose or to write a batch"),
    Metric("tahoe.stream.files", "counter", "{file}", "Files that batches of streams read"),
    Metric("tahoe.stream.size", "counter", "By", "The size of the files that batches of streams read"),
)

_of_global_providers: Subscription | None = None

_Measured: TypeAlias = tuple[str, float, dict[str, str]]


def measured(event: Event) -> Iterator[_Measured]:
    """What an event adds to metrics: name, value, and attributes besides the table."""
    seconds = event.duration_seconds
    match event:
        case Commit():
            operation = {"tahoe.operation": event.operation}
            yield "tahoe.commit.duration", seconds, operation
            for change, files, size_bytes in (
                ("added", event.files_added, event.bytes_added),
                ("removed", event.files_removed, event.bytes_removed),
            ):
                yield "tahoe.commit.files", files, {**operation, "tahoe.change": change}
                yield "tahoe.commit.size", size_bytes, {**operation, "tahoe.change": change}
        case Conflict():
            yield "tahoe.conflicts", 1, {"tahoe.operation": event.operation, "error.type": event.cause}
        case CommitFailed():
            yield "tahoe.commit.failures", 1, {"tahoe.operation": event.operation, "error.type": event.cause}
        case Retry():
            yield "tahoe.retries", 1, {"tahoe.retried": event.what}
        case QueryPlanned():
            yield "tahoe.query.planning.duration", seconds, {"tahoe.engine": event.engine}
            for choice, files, size_bytes in (
                ("read", event.files_read, event.bytes_read),
                ("skipped", event.files_skipped, event.bytes_skipped),
            ):
                yield "tahoe.query.files", files, {"tahoe.choice": choice}
                yield "tahoe.query.size", size_bytes, {"tahoe.choice": choice}
        case Checkpoint():
            yield "tahoe.checkpoint.duration", seconds, {}
            yield "tahoe.checkpoint.size", event.size_bytes, {}
        case BackgroundJob():
            failed = {} if event.cause is None else {"error.type": event.cause}
            yield "tahoe.background_job.duration", seconds, {"tahoe.job": event.job, **failed}
            yield "tahoe.background_job.wait", event.waited_seconds, {"tahoe.job": event.job}
        case StreamBatch():
            yield "tahoe.stream.batch.duration", seconds, {"tahoe.side": event.side}
            yield "tahoe.stream.files", event.files_read, {}
            yield "tahoe.stream.size", event.bytes_read, {}


def subscribed(
    tracer_provider: trace.TracerProvider | None, meter_provider: metrics.MeterProvider | None
) -> Subscription:
    """The subscription of a meter and a tracer. The global ones have one, however often it is asked for."""
    global _of_global_providers
    is_global = tracer_provider is None and meter_provider is None
    if is_global and _of_global_providers is not None and _of_global_providers.is_active:
        return _of_global_providers
    meter = metrics.get_meter("tahoe", VERSION, meter_provider)
    tracer = trace.get_tracer("tahoe", VERSION, tracer_provider)
    add = {metric.name: _instrument(meter, metric) for metric in METRICS}

    def told(event: Event) -> None:
        for name, value, attributes in measured(event):
            add[name](value, {"tahoe.table": event.table, **attributes})
        _trace(tracer, event)

    subscription = on(Event, told)
    if is_global:
        _of_global_providers = subscription
    return subscription


def _instrument(meter: metrics.Meter, metric: Metric) -> Callable[[float, _Attributes], None]:
    if metric.kind == "counter":
        return meter.create_counter(metric.name, metric.unit, metric.description).add
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=_SECONDS
    ).record


def _trace(tracer: trace.Tracer, event: Event) -> None:
    """A span from the beginning of the event to its end, below the span in which the program is."""
    begun_ns = event.ended_ns - round(event.duration_seconds * 1e9)
    span = tracer.start_span(f"tahoe.{event.name}", start_time=begun_ns, attributes=_attributes(event))
    if isinstance(event, Conflict | CommitFailed) or (isinstance(event, BackgroundJob) and event.cause is not None):
        span.set_attribute("error.type", str(event.cause))
        span.set_status(trace.StatusCode.ERROR, str(event.cause))
    span.end(event.ended_ns)


def _attributes(event: Event) -> dict[str, Any]:
    """The fields of an event as attributes of a span."""
    told = {name: value for name, value in event.to_dict().items() if value is not None}
    for name in ("event", "duration_seconds", "ended_ns"):
        del told[name]
    counted = told.pop("metrics", {})
    return {f"tahoe.{name}": value for name, value in told.items()} | {
        f"tahoe.metrics.{name}": value for name, value in counted.items()
    }
