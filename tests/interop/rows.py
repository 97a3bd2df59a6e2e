"""When two tables hold the same rows: types and values compared as the protocol means them, the order of rows aside.

Arrow has several ways to hold one Delta value (large strings, dictionaries, units and zones of time): those are no
difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Fail with the first differences in names, types, rows."""
    assert found.column_names == expected.column_names
    assert kinds(found) == kinds(expected)
    have, want = Counter(rows(found)), Counter(rows(expected))
    missing, extra = list((want - have).elements()), list((have - want).elements())
    differences = f"{len(missing)} rows missing, {len(extra)} too many of {want.total()}: {missing[:3]} / {extra[:3]}"
    assert have == want, differences


def kinds(table: pa.Table) -> dict[str, str]:
    """Each column's type in the protocol's words."""
    return {field.name: kind(field.type) for field in table.schema}


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Hashable rows, each column's value told by its type."""
    columns = [values(column.combine_chunks()) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def kind(of: pa.DataType) -> str:
    if pa.types.is_dictionary(of):
        return kind(of.value_type)
    if _is_variant(of):
        return "variant"
    if pa.types.is_struct(of):
        return "struct<" + ", ".join(f"{f.name}: {kind(f.type)}" for f in of) + ">"
    if pa.types.is_map(of):
        return f"map<{kind(of.key_type)}, {kind(of.item_type)}>"
    if _is_list(of):
        return f"array<{kind(of.value_type)}>"
    if pa.types.is_timestamp(of):
        return "timestamp" if of.tz else "timestamp_ntz"
    if pa.types.is_large_string(of) or pa.types.is_string(of) or of == pa.string_view():
        return "string"
    if pa.types.is_large_binary(of) or pa.types.is_binary(of):
        return "binary"
    if pa.types.is_decimal(of):
        return f"decimal({of.precision},{of.scale})"
    return str(of)


def values(array: pa.Array) -> Sequence[Any]:
    of = array.type
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in values(chunk)]
    if isinstance(array, pa.ExtensionArray):
        return values(array.storage)
    if pa.types.is_dictionary(of):
        return values(array.dictionary_decode())
    if pa.types.is_struct(of):
        if _is_variant(of):
            array = pa.StructArray.from_arrays([array.field(n) for n in _VARIANT], names=_VARIANT, mask=array.is_null())
        fields = [values(array.field(i)) for i in range(of.num_fields)]
        inner = list(zip(*fields, strict=True)) if fields else [()] * len(array)
        return [value if present else None for value, present in zip(inner, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(of):
        return [
            None if v is None else tuple(sorted(v, key=repr))
            for v in _nested(array, pa.array(array.keys), pa.array(array.items))
        ]
    if _is_list(of):
        return [None if v is None else tuple(v) for v in _nested(array, array.values)]
    if pa.types.is_timestamp(of):
        return array.cast(pa.timestamp("us", of.tz)).cast(pa.int64()).to_pylist()
    if pa.types.is_date(of):
        return array.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if pa.types.is_floating(of):
        return [None if v is None else repr(v) for v in array.to_pylist()]
    return array.to_pylist()


_VARIANT = ["metadata", "value"]


def _is_variant(of: pa.DataType) -> bool:
    return (
        pa.types.is_struct(of)
        and sorted(field.name for field in of) == _VARIANT
        and all(kind(field.type) == "binary" for field in of)
    )


def _is_list(of: pa.DataType) -> bool:
    return pa.types.is_list(of) or pa.types.is_large_list(of)


def _nested(array: pa.Array, *children: pa.Array) -> list[list[Any] | None]:
    """The slices of the children that each list or map of the array holds."""
    flat = [values(child) for child in children]
    offsets = array.offsets.to_pylist()
    found: list[list[Any] | None] = []
    for start, end, present in zip(offsets[:-1], offsets[1:], array.is_valid().to_pylist(), strict=True):
        items = flat[0][start:end] if len(flat) == 1 else list(zip(*(f[start:end] for f in flat), strict=True))
        found.append(list(items) if present else None)
    return found


def spark_rows(frame: DataFrame) -> pa.Table:
    """A DataFrame's rows. DataFrame.toArrow would be this and a cast, which fails for a variant that is null."""
    return pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))
