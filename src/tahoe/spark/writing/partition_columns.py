"""Converts partition columns to the values that readers will see, so that rules are checked on rows as they are stored.

Protocol: "Partition Value Serialization". Partition values are strings, and the empty string is null. All conversions
are expressions in the plan that is written. The folders of Spark's writer tell which values its files have, so a text
must not name the folder of null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import UnsupportedOperationError
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.partitions import HIVE_NULL, may_be_stored_as_null
from tahoe.protocol.types.schema import BINARY, Field, Struct
from tahoe.spark.writing.store_assignment import Refusals


def as_stored(value: Column) -> Column:
    """A string or binary value of a partition column as readers will see it: null if it is stored as null."""
    return F.when(value.cast("string") != "", value)


# Behind a text that begins like the name of the folder of null, in the names of folders.
_NO_NULL = "_"


def folder_value(value: Column, field: Field) -> Column:
    """The value by which Spark names a folder: a text is never the name of the folder of null. `text_in_folder` is the
    inverse.
    """
    if not may_be_stored_as_null(field.type):
        return value
    text = value.cast("string")
    marked = F.concat(text, F.lit(_NO_NULL)).cast("binary" if field.type == BINARY else "string")
    return F.when(text.startswith(HIVE_NULL), marked).otherwise(value)


def text_in_folder(text: str) -> str | None:
    """The text that a folder's unescaped name stands for; None for null."""
    if text == HIVE_NULL:
        return None
    return text.removesuffix(_NO_NULL) if text.startswith(HIVE_NULL) else text


def changed_when_stored(schema: Struct, partition_columns: Sequence[str]) -> frozenset[str]:
    """The partition columns in which a value that is not null may be stored as null."""
    fields = [field for field in (schema.find(name) for name in partition_columns) if field is not None]
    return frozenset(field.name for field in fields if may_be_stored_as_null(field.type))


def with_stored_values(rows: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Rows with the given columns as they will be stored. Columns that the rows do not have are ignored."""
    values = {name: as_stored(F.col(quoted(name))) for name in columns if name in rows.columns}
    return rows.withColumns(values) if values else rows


def check_partition_columns(
    rows: DataFrame, partition_columns: Sequence[str], schema: Struct, refusals: Refusals
) -> DataFrame:
    """The rows, with checks that refuse null in NOT NULL partition columns, and binary partition values that are not
    UTF-8.

    Precondition: the rows have the partition columns as they are stored (`with_stored_values`).
    """
    for name in sorted(changed_when_stored(schema, partition_columns)):
        field = schema.find(name)
        assert field is not None
        column = value = F.col(quoted(name))
        if field.type == BINARY:
            value = F.when(column.isNull() | F.is_valid_utf8(column.cast("string")), column).otherwise(
                _no_text(name, refusals)
            )
        if not field.nullable:
            value = F.when(column.isNull(), refusals.null((name,))).otherwise(value)
        if value is not column:
            rows = rows.withColumn(name, value)
    return rows


def _no_text(name: str, refusals: Refusals) -> Column:
    return refusals.column(
        f"A value of the binary partition column {name} of {refusals.table} is not valid UTF-8.",
        make_error=lambda value: UnsupportedOperationError(
            operation=f"Partitioning by the binary column {name}",
            table=refusals.table,
            detail=f"the value X'{value}' is not valid UTF-8, but partition values are strings",
            remedy="Encode the column first, with hex() or base64(), or partition by another column.",
        ),
        found=F.hex(F.col(quoted(name))),
    )
