"""Looks for rows that violate the declared keys of a table, by queries of Spark: `DeltaTable.checkKeys`.

What violates a key is said in `tahoe.table.verify.keys`. Each key is one query; a second one finds examples, if there
are any. Tables to which foreign keys refer may be in any catalog of the session, and of any format.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import DeltaError
from tahoe.protocol.configuration.declared_keys import FOREIGN, PRIMARY, Key, keys_of
from tahoe.protocol.types.names import quoted, sql_path, unused_name
from tahoe.spark.ddl.catalog import location_of
from tahoe.spark.jvm.local_rows import local_rows
from tahoe.spark.jvm.table_cache import open_table
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.verify.keys import EXAMPLES_MAX, KeyReport, referenced_columns, spelled_columns


def key_rows(spark: SparkSession, table: Table) -> DataFrame:
    """The reports of a table's keys as rows."""
    reports = check_keys(spark, table)
    return local_rows(
        spark,
        pa.table(
            {
                "name": pa.array([report.key.name for report in reports], pa.string()),
                "type": pa.array([report.key.kind for report in reports], pa.string()),
                "columns": pa.array([report.key.columns for report in reports], pa.list_(pa.string())),
                "violations": pa.array([report.violations for report in reports], pa.int64()),
                "examples": pa.array([report.shown_examples for report in reports], pa.list_(pa.string())),
                "reason": pa.array([report.reason for report in reports], pa.string()),
            }
        ),
    )


def check_keys(spark: SparkSession, table: Table) -> list[KeyReport]:
    """Check the keys of the newest version.

    Raises:
        InvalidPropertyError: a key cannot be read.
    """
    snapshot = table.snapshot()
    rows = spark.read.format("delta").option("versionAsOf", snapshot.version).load(snapshot.url)
    return [_checked(spark, key, snapshot, rows) for key in keys_of(snapshot.properties, table=snapshot.url)]


def _checked(spark: SparkSession, key: Key, snapshot: Snapshot, rows: DataFrame) -> KeyReport:
    try:
        columns = spelled_columns(key.columns, snapshot)
        if key.kind == FOREIGN:
            other, names = _referenced(spark, key)
            return _report(key, _without(rows, columns, other, names), columns)
    except LookupError as error:
        return KeyReport(key=key, reason=str(error.args[0]))
    except DeltaError as error:
        return KeyReport(key=key, reason=error.what.format(**error.parameters))
    except AnalysisException as error:
        return KeyReport(key=key, reason=str(error).partition("\n")[0])
    return _report(key, _repeated(key, rows, columns), columns)


def _report(key: Key, groups: DataFrame, columns: Sequence[str]) -> KeyReport:
    """The report from groups of rows that violate a key; `rows`, `surplus` and `nulls` are their last columns."""
    rows, surplus, nulls = groups.columns[-3:]
    found = groups.agg(F.sum(quoted(surplus)), F.sum(quoted(nulls))).first()
    violations, with_nulls = (0, 0) if found is None else (int(found[0] or 0), int(found[1] or 0))
    examples = (
        groups.orderBy(F.col(quoted(rows)).desc(), *_columns(columns)).limit(EXAMPLES_MAX) if violations else None
    )
    shown = [] if examples is None else examples.select(*_columns(columns)).collect()
    return KeyReport(
        key=key, violations=violations, nulls=with_nulls, examples=tuple(row.asDict(recursive=True) for row in shown)
    )


def _repeated(key: Key, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The values that several rows have, and of a primary key those with a null."""
    has_null = ~_all_given(columns)
    count, surplus, nulls = (unused_name(name, columns) for name in ("rows", "surplus", "nulls"))
    groups = rows.groupBy(*_columns(columns)).agg(F.count(F.lit(1)).alias(count))
    is_wrong = (has_null if key.kind == PRIMARY else F.lit(False)) | (~has_null & (F.col(count) > 1))
    null_rows = F.when(has_null, F.col(count)).otherwise(0)
    return groups.where(is_wrong).select(
        "*", F.when(has_null, F.col(count)).otherwise(F.col(count) - 1).alias(surplus), null_rows.alias(nulls)
    )


def _without(rows: DataFrame, columns: Sequence[str], other: DataFrame, names: Sequence[str]) -> DataFrame:
    """The values of rows to which no row of another table belongs."""
    count, surplus, nulls = (unused_name(name, columns) for name in ("rows", "surplus", "nulls"))
    groups = rows.where(_all_given(columns)).groupBy(*_columns(columns)).agg(F.count(F.lit(1)).alias(count))
    given, known = groups.alias("given"), other.select(*_columns(names)).alias("known")
    pairs = zip(columns, names, strict=True)
    matches = [F.col(f"given.{quoted(one)}") == F.col(f"known.{quoted(name)}") for one, name in pairs]
    # Keys take little space in files, so Spark would broadcast more of them than the driver has room for.
    lacking = given.join(known.hint("merge"), reduce(and_, matches), "left_anti")
    return lacking.select("*", F.col(quoted(count)).alias(surplus), F.lit(0).alias(nulls))


def _all_given(columns: Sequence[str]) -> Column:
    return reduce(and_, [column.isNotNull() for column in _columns(columns)])


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def _referenced(spark: SparkSession, key: Key) -> tuple[DataFrame, tuple[str, ...]]:
    """The rows of the table to which a foreign key refers, and the columns there.

    Raises:
        LookupError, DeltaError, AnalysisException: there is no such table, or it has no such columns.
    """
    if key.location is not None:
        other = open_table(spark, key.location).snapshot()
        rows = spark.read.format("delta").option("versionAsOf", other.version).load(other.url)
        return rows, referenced_columns(key, other)
    name = sql_path(key.references)
    rows = spark.table(name)
    if not key.referenced_columns:
        return rows, referenced_columns(key, open_table(spark, location_of(spark, name)).snapshot())
    by_folded = {name.lower(): name for name in rows.columns}
    lacking = [name for name in key.referenced_columns if name.lower() not in by_folded]
    if lacking:
        raise LookupError(f"{'.'.join(key.references)} has no column {', '.join(lacking)}")
    return rows, tuple(by_folded[name.lower()] for name in key.referenced_columns)
