"""Takes the statistics of newly written data files from their Parquet footers.

Protocol: "Per-file Statistics". A footer already has row counts, null counts and bounds. Reading it takes milliseconds;
computing statistics from the rows would cost time for every value. Statistics that a footer does not have are left out,
as the protocol allows: bounds of a column with a NaN, and everything inside arrays and maps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tahoe.errors import ConcurrentWriteException
from tahoe.protocol.changes.column_values import identity_columns
from tahoe.protocol.configuration.column_mapping import physical_schema
from tahoe.protocol.configuration.features import FEATURES_BY_NAME
from tahoe.protocol.configuration.properties import STRING_PREFIX_LENGTH
from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.statistics.stats import Statistics, encode_statistics, has_bounds, statistics_columns
from tahoe.protocol.types.partitions import from_days, from_micros
from tahoe.protocol.types.predicate import is_nan
from tahoe.protocol.types.schema import DATE, LONG, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, DataType, Field, Geospatial
from tahoe.storage.env import Store
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.file_columns import julian_before
from tahoe.table.writing.shredded import variant_bounds

Path: TypeAlias = tuple[str, ...]

# In footers of this writer, NaN is the largest value: a column whose bounds are numbers has no NaN. Before 1.10, which
# Spark has since version 2.4, it left NaN out of the bounds, as other writers do.
_WRITER_THAT_BOUNDS_NAN = re.compile(r"parquet-mr version (?:1\.[1-9]\d|[2-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """A data file's row count, the text of `add.stats`, and the last value of each requested identity column."""

    num_records: int
    json: str
    minted: Mapping[str, int] = field(default_factory=dict)


def read_statistics(
    store: Store,
    keys: Sequence[str],
    metadata: Metadata,
    mapping_mode: str,
    *,
    clustering: Sequence[Path] = (),
    minted: Iterable[str] = (),
    footers: Mapping[str, pq.FileMetaData] | None = None,
) -> dict[str, FileStatistics]:
    """The statistics of data files of a table, by key.

    Args:
        keys: relative to the store.
        metadata: of the table; its properties say which columns have statistics.
        mapping_mode: `none`, `name` or `id`.
        clustering: logical paths of the columns that always have statistics.
        minted: identity columns, by logical name, whose last value is wanted: the largest, or the smallest if the step
            is negative.
        footers: those that are known, by key; the others are read.
    """
    known_footers = footers or {}
    physical = physical_schema(metadata.schema, mapping_mode)
    columns = {column.physical: column.type for column in indexed_columns(metadata, mapping_mode, clustering)}
    prefix_length = STRING_PREFIX_LENGTH.get(metadata.configuration)
    physical_names = {f.name: p.name for f, p in zip(metadata.schema, physical, strict=True)}
    minted_columns = {
        name: (physical_names[name], identity.step > 0)
        for name, identity in identity_columns(metadata.schema)
        if name in set(minted)
    }

    def read(key: str) -> FileStatistics:
        footer = known_footers.get(key) or _footer(store, key)
        statistics = footer_statistics(footer, columns, shredded=may_shred(metadata))
        found = {
            name: _farthest(store, key, footer, column, rises)
            for name, (column, rises) in minted_columns.items()
            if footer.num_rows
        }
        return FileStatistics(
            num_records=footer.num_rows,
            json=encode_statistics(statistics, physical, prefix_length=prefix_length),
            minted={name: value for name, value in found.items() if value is not None},
        )

    found = map(read, keys) if known_footers else in_threads(read, keys)
    return dict(zip(keys, found, strict=True))


def _farthest(store: Store, key: str, footer: pq.FileMetaData, column: str, rises: bool) -> int | None:
    """The largest or smallest value in a column of longs; None if all are null. If the footer has no bounds, the column
    is read.
    """
    statistics = footer_statistics(footer, {(column,): LONG})
    bounds = statistics.max_values if rises else statistics.min_values
    if (column,) in bounds:
        value = bounds[(column,)]
    elif statistics.null_count.get((column,)) == footer.num_rows:
        return None
    else:
        with _opened(store, key) as file:
            values = pq.read_table(file, columns=[column]).column(0)
        value = (pc.max if rises else pc.min)(values).as_py()
    return None if value is None else int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedColumn:
    """A column that has statistics: its logical and its physical path, and its field in data files."""

    logical: Path
    physical: Path
    field: Field

    @property
    def type(self) -> DataType:
        return self.field.type


def indexed_columns(metadata: Metadata, mapping_mode: str, clustering: Sequence[Path] = ()) -> list[IndexedColumn]:
    """The columns of which new files get statistics, as the table's properties say.

    Args:
        clustering: logical paths of the columns that always have statistics.
    """
    chosen = statistics_columns(
        metadata.schema, metadata.partition_columns, metadata.configuration, clustering=clustering
    )
    paths = {path for path, _ in chosen}
    return [column for column in columns_in_files(metadata, mapping_mode) if column.logical in paths]


def columns_in_files(metadata: Metadata, mapping_mode: str) -> list[IndexedColumn]:
    """All columns that may have statistics."""
    leaves = zip(metadata.schema.leaves(), physical_schema(metadata.schema, mapping_mode).leaves(), strict=True)
    columns = [
        IndexedColumn(logical=logical, physical=physical, field=stored) for (logical, _), (physical, stored) in leaves
    ]
    return [column for column in columns if column.logical[0] not in metadata.partition_columns]


def _footer(store: Store, key: str) -> pq.FileMetaData:
    with _opened(store, key) as file:
        return pq.read_metadata(file)


def _opened(store: Store, key: str) -> Any:
    """A file that was just written.

    Raises:
        ConcurrentWriteException: it is gone.
    """
    try:
        return store.open(key)
    except FileNotFoundError as error:
        detail = f"the file {key}, which was just written and which no commit names yet, is gone"
        conflict = ConcurrentWriteException(
            table=store.url, winner="a VACUUM with a short retention, it seems", detail=detail
        )
        conflict.may_rerun = conflict.loses_files = True
        raise conflict from error


def may_shred(metadata: Metadata) -> bool:
    """Whether variants of a table may have bounds. Protocol: "Statistics for Variant Columns"."""
    return FEATURES_BY_NAME["variantShredding"].active(metadata.schema, metadata.configuration)


def footer_statistics(
    footer: pq.FileMetaData,
    columns: Mapping[Path, DataType],
    positions: Mapping[Path, int] | None = None,
    *,
    shredded: bool = False,
) -> Statistics:
    """The statistics of the wanted columns, as far as the footer has them.

    Args:
        columns: by physical path, with their types.
        positions: those of `leaf_positions`, if they are known from a file with the same schema.
        shredded: whether variants have bounds.
    """
    if positions is None:
        positions = leaf_positions(footer.schema.to_arrow_schema())
    limits = julian_before(footer)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    null_count: dict[Path, int] = {}
    bounds: dict[Path, tuple[Any, Any]] = {}
    for path, data_type in columns.items():
        position = positions.get((*path, "metadata") if data_type == VARIANT else path)
        if position is None:
            continue
        chunks = [(group.num_rows, group.column(position).statistics) for group in groups]
        nulls = [
            statistics.null_count if statistics is not None and statistics.has_null_count else None
            for _, statistics in chunks
        ]
        if all(count is not None for count in nulls):
            null_count[path] = sum(count for count in nulls if count is not None)
        found: tuple[Any, Any] | None = None
        if data_type == VARIANT and shredded:
            found = variant_bounds(
                footer, path, positions, lambda chunks, kind: _bounds(chunks, kind, limits.get(kind))
            )
        elif isinstance(data_type, Geospatial):
            found = _box([group.column(position).geo_statistics for group in groups])
        elif has_bounds(data_type):
            found = _bounds(chunks, data_type, limits.get(data_type))
        if found is not None:
            bounds[path] = found
    return Statistics(
        num_records=footer.num_rows,
        null_count=null_count,
        min_values={path: low for path, (low, _) in bounds.items()},
        max_values={path: high for path, (_, high) in bounds.items()},
    )


def _bounds(chunks: Sequence[tuple[int, Any]], data_type: DataType, julian: int | None) -> tuple[Any, Any] | None:
    """The smallest and the largest value of all row groups; None if a group with values has no bounds, or they are NaN
    or Julian.
    """
    lows, highs = [], []
    for rows, statistics in chunks:
        if statistics is None or not statistics.has_min_max:
            if statistics is not None and statistics.has_null_count and statistics.null_count == rows:
                continue
            return None
        try:
            low, high = _raw_bounds(statistics, data_type)
        except UnicodeDecodeError:  # text that is not UTF-8 has no bounds in JSON
            return None
        if is_nan(low) or is_nan(high) or (julian is not None and low < julian):
            return None
        lows.append(low)
        highs.append(high)
    value: Callable[[Any], Any] = BOUND_VALUES.get(data_type, _same)
    return (value(min(lows)), value(max(highs))) if lows else None


def _box(boxes: Sequence[Any]) -> tuple[str, str] | None:
    """The corners of the box around all geometries of a file, in well-known text as Delta Kernel writes it; None if a
    row group does not tell, as those with geographies, or with empty geometries or nulls only, do not.
    """
    if not boxes or any(box is None for box in boxes):
        return None
    ends: dict[str, tuple[float, float]] = {}
    for axis in "xyzm":
        lows, highs = ([getattr(box, axis + end) for box in boxes] for end in ("min", "max"))
        if all(low is not None and high is not None for low, high in zip(lows, highs, strict=True)):
            ends[axis] = min(lows), max(highs)
    if not {"x", "y"} <= ends.keys() or not all(math.isfinite(end) for pair in ends.values() for end in pair):
        return None
    more = "".join(ends).removeprefix("xy").upper()
    kind = f"POINT {more} " if more else "POINT"
    low, high = (f"{kind}({' '.join(repr(float(pair[side])) for pair in ends.values())})" for side in (0, 1))
    return low, high


def _raw_bounds(statistics: Any, data_type: DataType) -> tuple[Any, Any]:
    """Bounds as the footer has them, dates and timestamps as integers, because Python's calendar is shorter than
    Spark's.
    """
    return (statistics.min_raw, statistics.max_raw) if data_type in BOUND_VALUES else (statistics.min, statistics.max)


def _same(value: Any) -> Any:
    return value


BOUND_VALUES: Mapping[DataType, Callable[[Any], Any]] = {
    DATE: from_days,
    TIMESTAMP: lambda micros: from_micros(micros, UTC),
    TIMESTAMP_NTZ: lambda micros: from_micros(micros, None),
}


def bounds_nan(footer: pq.FileMetaData) -> bool:
    """Whether the footer's writer counts NaN among the bounds, so that a column whose bounds are numbers has no NaN."""
    return _WRITER_THAT_BOUNDS_NAN.match(str(footer.created_by)) is not None


def leaf_positions(schema: pa.Schema) -> dict[Path, int]:
    """The positions of the file's columns that are not inside arrays or maps, by path.

    The footer's dotted paths are ambiguous, because names may contain dots.
    """
    leaves = enumerate(leaf for field in schema for leaf in _leaves(field, ()))
    return {path: position for position, path in leaves if path is not None}


def _leaves(field: pa.Field, prefix: Path) -> Iterator[Path | None]:
    """The columns of a field in the file's order, with None for those inside arrays and maps."""
    path, kind = (*prefix, field.name), field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves(child, path)
    elif pa.types.is_nested(kind):
        for position in range(kind.num_fields):
            yield from (None for _ in _leaves(kind.field(position), ()))
    else:
        yield path
