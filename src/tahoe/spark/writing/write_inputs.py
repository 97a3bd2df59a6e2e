"""The inputs of a write: the DataFrame's schema as a table schema, the tables that the query reads, and the options.

Protocol: "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tahoe.errors import UnsupportedDataTypeError
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.types.assignment_rules import Policy
from tahoe.protocol.types.column_metadata import COLLATIONS, CURRENT_DEFAULT, EXISTS_DEFAULT
from tahoe.protocol.types.names import dotted
from tahoe.protocol.types.schema import Field, Struct, map_fields, walk_fields
from tahoe.spark.configuration import setting_names
from tahoe.spark.configuration.option_names import OptionContext, warn, warn_of_unknown
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import analysed
from tahoe.spark.jvm.types import delta_schema, spark_schema
from tahoe.spark.writing.foreign_types import (
    casts_of,
    holds_foreign,
    without_foreign_types,
    without_known_collations,
)
from tahoe.spark.writing.store_assignment import declares
from tahoe.spark.writing.write_options import WriteOptions, parse_options
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.write_plan import WritePlan


def write_options(
    spark: SparkSession, options: Mapping[str, str], table: TableReader, place: OptionContext = OptionContext.WRITE
) -> WriteOptions:
    """The options of a write, with the session's settings.

    Raises:
        InvalidOptionError: see `parse_options`.
    """
    warn_of_unknown(options, place, table=table.url)
    settings = Gateway(spark).settings()
    parsed = parse_options(options, settings, table=table.url)
    if parsed.txn is not None and setting_names.RESET_TXN_VERSION.of(settings, table=table.url):
        spark.conf.unset(
            setting_names.TXN_VERSION.name
        )  # otherwise the session's next write would count as a repetition of this one
    return parsed


def warn_of_clustering(plan: WritePlan) -> None:
    """Warn about `clusterBy` of a write to a table that exists, and that has other clustering columns or none: they are
    chosen when a table is created.
    """
    asked, there = (
        [dotted(path) for path in paths] for paths in (plan.request.cluster_by or (), plan.clustering_columns)
    )
    if plan.snapshot is None or not asked or [n.lower() for n in asked] == [n.lower() for n in there]:
        return
    has = f"is clustered by {', '.join(there)}" if there else "has no clustering columns"
    columns = plan.partition_columns
    remedy = (
        f"it is partitioned by {', '.join(columns)}"
        if columns
        else f"ALTER TABLE ... CLUSTER BY ({', '.join(asked)}) changes them"
    )
    warn(f"{plan.url}: clusterBy({', '.join(asked)}) has no effect, because the table exists and {has}; {remedy}")


def reads_table(frame: DataFrame, table: TableReader) -> bool:
    """Whether a query reads a table anywhere in its plan."""
    return bool(Gateway(frame.sparkSession).java_class("delta.Files").areRead(analysed(frame), table.url))


def table_schema(
    frame: DataFrame,
    *,
    table: str,
    like: Struct | None = None,
    known: Struct | None = None,
    policy: Policy = "ANSI",
) -> Struct:
    """The data's schema as a table schema, without column metadata of the source table, such as its rules and field
    ids.

    Args:
        like: the table's columns. Data of a type that Delta does not have is allowed if Spark casts it to the table's
            column.
        known: the table's columns. Data with the collations of its column is allowed.
        policy: the store assignment policy for these casts.

    Raises:
        UnsupportedDataTypeError: a column has a type that Delta does not support; names the column.
    """
    given = _like(frame, like, policy)
    return _table_schema(given if known is None else without_known_collations(given, spark_schema(known)), table)


def source_schema(frame: DataFrame, *, table: str, like: Struct) -> Struct:
    """Like `table_schema` for a MERGE's source. Columns with a type that Delta cannot store are left out; only
    expressions can use them.
    """
    known = _like(frame, like, "ANSI")
    return _table_schema(StructType([field for field in known if not holds_foreign(field.dataType)]), table)


def _like(frame: DataFrame, like: Struct | None, policy: Policy) -> StructType:
    if like is None or not holds_foreign(frame.schema):
        return frame.schema
    return without_foreign_types(frame.schema, spark_schema(like), casts_of(frame.sparkSession, policy))


def _table_schema(given: StructType, table: str) -> Struct:
    schema = delta_schema(given, table=table)
    for path, field in walk_fields(schema):
        if COLLATIONS in field.metadata:
            raise UnsupportedDataTypeError(
                table=table, column=".".join(path), type=f"string with collations {field.metadata[COLLATIONS]}"
            )
    return map_fields(schema, lambda field: replace(field, metadata=_own_metadata(field)))


# Metadata keys that describe the table that a column was read from: its default values, and its field id in the files.
_OF_ITS_SOURCE = frozenset({CURRENT_DEFAULT, EXISTS_DEFAULT, "parquet.field.id"})


def _own_metadata(field: Field) -> dict[str, Any]:
    is_declared = TEXT_TYPE in field.metadata and declares(field)
    return {
        name: value
        for name, value in field.metadata.items()
        if (is_declared if name == TEXT_TYPE else not _is_of_its_source(name))
    }


def _is_of_its_source(name: str) -> bool:
    return name.startswith(("delta.", "__")) or name in _OF_ITS_SOURCE
