"""The option withEventTimeOrder: it orders the rows of the initial snapshot by the column of the query's watermark."""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.errors import UnsupportedOperationError
from tahoe.protocol.types.names import dotted
from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.streaming_plans import Watermark, watermarks_of
from tahoe.spark.streams.options import EVENT_TIME_ORDER, SourceOptions
from tahoe.table.reading.snapshot import Snapshot

_REMEDY = (
    "Call withWatermark on a column of the table, before other steps of the query; or set the option "
    f"{EVENT_TIME_ORDER} to false; then start the query with trigger(once=True) the first time: it reads these rows "
    "in one batch, in which no row is late."
)


def is_wanted(gateway: Gateway, asked: SourceOptions, *, table: str) -> bool:
    """Whether a stream has an initial snapshot, which is to be read in the order of event time: by its option, else by
    the session.

    Raises:
        InvalidOptionError: the session's setting is neither true nor false.
    """
    if asked.has_start:
        return False
    return (
        setting_names.EVENT_TIME_ORDER.of(gateway.settings(), table=table)
        if asked.event_time_order is None
        else asked.event_time_order
    )


def event_time(
    gateway: Gateway, snapshot: Snapshot, plan: JavaObject, options: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The path of the column by which the rows of the initial snapshot are ordered; None for the order of their files.

    A query without a watermark over the stream needs no order, as it drops no rows.

    Args:
        plan: of the query.
        options: of the stream, with their names in any case.

    Raises:
        UnsupportedOperationError: the watermark follows something else than a column of the table.
    """
    watermarks = watermarks_of(gateway, plan, {name.lower(): value for name, value in options.items()})
    columns = list(dict.fromkeys(_column(watermark, snapshot) for watermark in watermarks))
    if len(columns) > 1:
        raise _refusal(
            snapshot, f"the query has watermarks on several of its columns: {', '.join(map(dotted, columns))}"
        )
    return next(iter(columns), None)


def _column(watermark: Watermark, snapshot: Snapshot) -> tuple[str, ...]:
    if watermark.streams > 1:
        raise _refusal(snapshot, f"the watermark on {watermark.name} follows the rows of several streams")
    if watermark.column is None:
        raise _refusal(snapshot, f"the watermark is on {watermark.name}, which the query computes")
    if snapshot.schema.resolve(watermark.column) is None:
        raise _refusal(snapshot, f"the watermark is on {dotted(watermark.column)}, which is not a column of the table")
    return watermark.column


def _refusal(snapshot: Snapshot, detail: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        operation=f"The option {EVENT_TIME_ORDER}", table=snapshot.url, detail=detail, remedy=_REMEDY
    )
