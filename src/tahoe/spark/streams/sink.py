"""A Delta table as the sink of a streaming query: each batch is one commit, which records the query and the number of
the batch.

A batch that is tried again finds its number in the table, and does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import NullType

from tahoe.errors import InvalidOptionError, StreamOutputModeError, StreamVoidColumnError
from tahoe.events.kinds import StreamBatch
from tahoe.events.listeners import emit, now
from tahoe.spark.configuration.option_names import OptionContext
from tahoe.spark.dml.write import Batch, write_batch
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.plans import batch_rows, frame_of
from tahoe.spark.jvm.statements.time_travel import check_names_no_version
from tahoe.spark.jvm.table_cache import open_table, table_finder
from tahoe.spark.writing.foreign_types import holds
from tahoe.spark.writing.write_inputs import write_options
from tahoe.spark.writing.write_options import WriteOptions

_MODES = ("Append", "Complete")


def check_sink(gateway: Gateway, options: Mapping[str, str], mode: str) -> None:
    """Refuse a sink before its query starts.

    Args:
        mode: Append, Complete or Update.

    Raises:
        StreamOutputModeError: the mode is not one of Delta tables.
        InvalidOptionError: an option is missing, invalid, or not one of streams.
        InvalidTimeTravelError: the path names a version, as in `path@v3`.
    """
    check_names_no_version(table_finder(gateway.spark, options), _path(options))
    table = open_table(gateway.spark, _path(options), options)
    if mode not in _MODES:
        raise StreamOutputModeError(table=table.url, mode=mode)
    parsed = write_options(gateway.spark, options, table, OptionContext.WRITE_STREAM)
    _check_whole_batches(parsed, {name.lower(): value for name, value in options.items()}, table.url)


# Options of a single write that a stream cannot have, and why.
_REPLACES = (
    "a stream appends its rows, or replaces all rows in complete mode; to replace some, write each batch in "
    "foreachBatch"
)
_NUMBERS = (
    "each batch is recorded by the id of its query and its number already; in foreachBatch, give txnAppId and "
    "txnVersion"
)
_REFUSED = {
    **dict.fromkeys(("replaceWhere", "replaceUsing", "replaceOn", "targetAlias"), _REPLACES),
    **dict.fromkeys(("txnAppId", "txnVersion"), _NUMBERS),
}


def _check_whole_batches(parsed: WriteOptions, given: Mapping[str, str], table: str) -> None:
    """Refuse options of a single write."""
    refused = next(((name, detail) for name, detail in _REFUSED.items() if name.lower() in given), None)
    if parsed.dynamic_partitions and "partitionoverwritemode" in given:
        refused = "partitionOverwriteMode", _REPLACES
    if not parsed.data_change:
        refused = "dataChange", "the rows of a stream are new to the table"
    if refused is not None:
        name, detail = refused
        raise InvalidOptionError(option=name, value=given[name.lower()], table=table, detail=detail)


def _path(options: Mapping[str, str]) -> str:
    path = next((value for name, value in options.items() if name.lower() == "path"), None)
    if not path:
        raise InvalidOptionError(
            option="path", value="missing", table="the sink", detail="writing a Delta table requires a path"
        )
    return path


def write_microbatch(
    gateway: Gateway, options: Mapping[str, str], partitions: str, mode: str, query: str, batch: int, data: JavaObject
) -> None:
    """Write a batch.

    Args:
        partitions: the columns of partitionBy, separated by NUL.
        query: the id of the query, which its checkpoint keeps.
        data: the `Dataset` of the batch, which belongs to the query.

    Raises:
        StreamVoidColumnError: a column has no type.
        DeltaError: see `tahoe.spark.dml.write.save`.
        Nothing was committed then.
    """
    begun, path = now(), _path(options)
    asked = Batch(
        rows=batch_rows(gateway, data),
        plan=frame_of(data, gateway.spark),
        number=batch,
        query=query,
        mode=mode,
        partition_by=tuple(partitions.split("\0")) if partitions else (),
        options=options,
    )
    void = next((f.name for f in asked.rows.schema if holds(f.dataType, lambda kind: isinstance(kind, NullType))), None)
    if void is not None:
        raise StreamVoidColumnError(column=void, table=path)
    version = write_batch(gateway.spark, path, asked)
    emit(
        StreamBatch,
        lambda: StreamBatch(
            table=open_table(gateway.spark, path, options).url,
            duration_seconds=now() - begun,
            side="sink",
            version=version,
            query=query,
            batch=batch,
        ),
    )
