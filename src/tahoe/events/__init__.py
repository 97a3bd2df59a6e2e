"""What happens to tables, as events: listeners, Python's logging and OpenTelemetry are told of it.

    tahoe.on("commit", print)                        # or tahoe.on(tahoe.events.Commit, print)
    logging.getLogger("tahoe.events").setLevel(logging.INFO)
    tahoe.events.use_opentelemetry()                 # or TAHOE_OPENTELEMETRY=1 in the environment

An event has names, versions, counts, sizes and times. It has no rows, no values of rows and no credentials.
"""

from __future__ import annotations

import os as _os
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

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

if _TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider as _MeterProvider
    from opentelemetry.trace import TracerProvider as _TracerProvider

__all__ = [
    "BackgroundJob",
    "Checkpoint",
    "Commit",
    "CommitFailed",
    "Conflict",
    "Event",
    "QueryPlanned",
    "Retry",
    "StreamBatch",
    "Subscription",
    "on",
    "use_opentelemetry",
]

OPENTELEMETRY_VARIABLE = "TAHOE_OPENTELEMETRY"


def use_opentelemetry(
    tracer_provider: _TracerProvider | None = None, meter_provider: _MeterProvider | None = None
) -> Subscription:
    """Send events to OpenTelemetry from now on: metrics, and a span for each event.

    Exporters are configured as for any other library: tahoe asks for a tracer and a meter, and configures nothing.

    Args:
        tracer_provider, meter_provider: None for the global ones, which may also be set later.

    Returns:
        what ends it: `remove()`, or the end of a `with` block.

    Raises:
        PackageMissingError: `opentelemetry-api` is not installed.
    """
    found: Subscription = _import_module("tahoe.events.telemetry").subscribed(tracer_provider, meter_provider)
    return found


def __dir__() -> list[str]:
    return __all__


if _os.environ.get(OPENTELEMETRY_VARIABLE, "").lower() in ("1", "true"):
    use_opentelemetry()
