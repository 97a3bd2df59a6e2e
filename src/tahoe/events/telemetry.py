"""Events as metrics and traces of OpenTelemetry. Imported only if they are asked for.

Metrics are named as OpenTelemetry's conventions have it: dots between words, units apart. Prometheus has them with
underscores, the unit, and `_total` behind counters: `tahoe_commit_duration_seconds_bucket`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tahoe._cached import Recent
from tahoe._version import VERSION
from tahoe.errors import PackageMissingError
from tahoe.events.kinds import (
    FIELDS,
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

# The fields that are attributes of a span, with their names there. It has its times itself, and the metrics of an
# operation are an attribute each.
_ATTRIBUTES: Mapping[type[Event], tuple[tuple[str, str], ...]] = {
    kind: tuple((name, f"tahoe.{name}") for name in names if name not in ("duration_seconds", "ended_ns", "metrics"))
    for kind, names in FIELDS.items()
}

# For so many sets of attributes each counter knows that it was told of a 0.
_BEGUN_MAX = 10_000

_of_global_providers: Subscription | None = None

_Measured: TypeAlias = tuple[str, float, _Attributes]


def measured(event: Event) -> Iterator[_Measured]:
    """What an event adds to metrics: name, value and attributes."""
    seconds = event.duration_seconds
    table: dict[str, str] = {"tahoe.table": event.table}
    match event:
        case Commit():
            operation = table | {"tahoe.operation": event.operation}
            yield "tahoe.commit.duration", seconds, operation
            for change, files, size_bytes in (
                ("added", event.files_added, event.bytes_added),
                ("removed", event.files_removed, event.bytes_removed),
            ):
                changed = operation | {"tahoe.change": change}
                yield "tahoe.commit.files", files, changed
                yield "tahoe.commit.size", size_bytes, changed
        case Conflict():
            yield "tahoe.conflicts", 1, table | {"tahoe.operation": event.operation, "error.type": event.cause}
        case CommitFailed():
            yield "tahoe.commit.failures", 1, table | {"tahoe.operation": event.operation, "error.type": event.cause}
        case Retry():
            yield "tahoe.retries", 1, table | {"tahoe.retried": event.what}
        case QueryPlanned():
            yield "tahoe.query.planning.duration", seconds, table | {"tahoe.engine": event.engine}
            for choice, files, size_bytes in (
                ("read", event.files_read, event.bytes_read),
                ("skipped", event.files_skipped, event.bytes_skipped),
            ):
                chosen = table | {"tahoe.choice": choice}
                yield "tahoe.query.files", files, chosen
                yield "tahoe.query.size", size_bytes, chosen
        case Checkpoint():
            yield "tahoe.checkpoint.duration", seconds, table
            yield "tahoe.checkpoint.size", event.size_bytes, table
        case BackgroundJob():
            job = table | {"tahoe.job": event.job}
            failed = {} if event.cause is None else {"error.type": event.cause}
            yield "tahoe.background_job.duration", seconds, job | failed
            yield "tahoe.background_job.wait", event.waited_seconds, job
        case StreamBatch():
            yield "tahoe.stream.batch.duration", seconds, table | {"tahoe.side": event.side}
            yield "tahoe.stream.files", event.files_read, table
            yield "tahoe.stream.size", event.bytes_read, table


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
            add[name](value, attributes)
        _trace(tracer, event)

    subscription = on(Event, told)
    if is_global:
        _of_global_providers = subscription
    return subscription


def _instrument(meter: metrics.Meter, metric: Metric) -> Callable[[float, _Attributes], None]:
    if metric.kind == "counter":
        return _counting(meter.create_counter(metric.name, metric.unit, metric.description))
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=_SECONDS
    ).record


def _counting(counter: metrics.Counter) -> Callable[[float, _Attributes], None]:
    """Adds to a counter. It is told of a 0 once, so that what is added later is an increase; further ones say nothing,
    and most commits remove no file.
    """
    begun: Recent[tuple[Any, ...], bool] = Recent(_BEGUN_MAX)

    def add(value: float, attributes: _Attributes) -> None:
        if not value:
            series = tuple(attributes.values())
            if begun.get(series):
                return
            begun.put(series, True)
        counter.add(value, attributes)

    return add


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
    told = {
        attribute: value for name, attribute in _ATTRIBUTES[type(event)] if (value := getattr(event, name)) is not None
    }
    if isinstance(event, Commit):
        told |= {f"tahoe.metrics.{name}": value for name, value in event.metrics.items()}
    return told
