"""A rescued data column: what the files have and the table's columns do not take, as JSON.

Files without types of their own (CSV, JSON lines) are read as texts, which become the values of the table's columns. A
text that is none of its column's type is null there, and rescued, as is what has no column.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from tahoe.protocol.types.names import quoted

# Names beside the columns of the files.
_WHOLE, _VALUE, _CORRUPT = "__tahoe_texts", "__tahoe_value", "__tahoe_corrupt"

PATH = "__tahoe_file_path"
"""The column of the frames with the path of each row's file."""

_PATH_KEY = "_file_path"


def rescued_csv(texts: DataFrame, table: StructType, column: str) -> DataFrame:
    """The rows of CSV files.

    Args:
        texts: their columns as texts, and `PATH`.
        table: the table's columns.
        column: the name of the rescued data column.
    """
    names = [name for name in texts.columns if name != PATH]
    pairs = [part for name in names for part in (F.lit(name), F.col(quoted(name)).cast("string"))]
    whole = texts.select(F.create_map(*pairs).alias(_WHOLE), PATH)
    by_lower = {name.lower(): name for name in names}
    fields = {by_lower[f.name.lower()]: f for f in table if f.name.lower() in by_lower}
    return _divided(whole, fields, column)


def rescued_json(
    lines: DataFrame, table: StructType, column: str, *, made: frozenset[str], options: Mapping[str, str]
) -> DataFrame:
    """The rows of files with one JSON object in a line. A line that is no object is rescued as `_corrupt_record`.

    Args:
        lines: the column `value`, the columns of partitions, and `PATH`; `table` and `column` as for CSV.
        made: the columns whose values the table makes where no line has them.
        options: of Spark's reader of JSON.
    """
    line = F.col("value")
    found = F.from_json(line, MapType(StringType(), StringType()), dict(options))
    whole = F.coalesce(found, F.create_map(F.lit("_corrupt_record"), line))
    partitions = [name for name in lines.columns if name not in ("value", PATH)]
    rows = lines.filter(F.trim(line) != "").select(whole.alias(_WHOLE), PATH, *map(quoted, partitions))
    besides = {column.lower(), *(name.lower() for name in partitions)}
    if made:
        keys = rows.select(F.explode(F.map_keys(_WHOLE)).alias(_VALUE)).distinct().filter(F.col(_VALUE).isin(*made))
        besides |= {name.lower() for name in made - {key for (key,) in keys.collect()}}
    fields = {f.name: f for f in table if f.name.lower() not in besides}
    return _divided(rows, fields, column, partitions, is_json=True)


def _divided(
    rows: DataFrame,
    fields: dict[str, StructField],
    column: str,
    partitions: list[str] | None = None,
    *,
    is_json: bool = False,
) -> DataFrame:
    """The rows with the values of the fields, and with what is left.

    Args:
        fields: the table's columns, by their names in the files.
    """
    texts = {name: F.element_at(F.col(_WHOLE), F.lit(name)) for name in fields}
    typed = {name: _parsed(texts[name], fields[name].dataType, is_json=is_json) for name in fields}
    fit = [F.when(texts[name].isNull() | typed[name].isNotNull(), F.lit(name)) for name in fields]
    taken = F.array_compact(F.array(*fit, F.lit(None).cast("string")))
    left = F.map_filter(F.col(_WHOLE), lambda name, text: text.isNotNull() & ~F.array_contains(taken, name))
    with_path = F.map_concat(left, F.create_map(F.lit(_PATH_KEY), F.col(PATH)))
    return rows.select(
        *(typed[name].alias(fields[name].name) for name in fields),
        *map(quoted, partitions or ()),
        F.when(F.size(left) > 0, F.to_json(with_path)).alias(column),
    )


def _parsed(text: Column, data_type: DataType, *, is_json: bool) -> Column:
    """The value of a text; null if it is not of the type. JSON has bytes in base64, as Spark's reader takes them."""
    if isinstance(data_type, StringType):
        return text
    if isinstance(data_type, BinaryType) and is_json:
        return F.try_to_binary(text, F.lit("base64"))
    if isinstance(data_type, VariantType):
        return F.try_parse_json(text)
    if not isinstance(data_type, StructType | ArrayType | MapType):
        return text.try_cast(data_type)
    wrapped = StructType([StructField(_VALUE, data_type), StructField(_CORRUPT, StringType())])
    found = F.from_json(
        F.concat(F.lit(f'{{"{_VALUE}":'), text, F.lit("}")), wrapped, {"columnNameOfCorruptRecord": _CORRUPT}
    )
    return F.when(found[_CORRUPT].isNull(), found[_VALUE])
