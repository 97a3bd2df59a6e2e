"""Statistics of many files at once: converts JSON text or `stats_parsed` to typed columns, only those that a predicate
names.

Protocol: "Per-file Statistics", "Checkpoints" (`stats_parsed`). A statistic that is missing, or does not fit the
column's type, is null and excludes no file; neither does one that cannot be true (`possible_statistics`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tahoe.protocol.log.deletion_vector import Z85, z85_decode, z85_encode
from tahoe.protocol.statistics.stats import Statistics, encode_statistics
from tahoe.protocol.statistics.variants import parts_of
from tahoe.protocol.types.json_text import load_json
from tahoe.protocol.types.partitions import from_days, from_micros
from tahoe.protocol.types.schema import VARIANT, DataType, Decimal, Primitive, Struct
from tahoe.storage.threads import on_all_cores
from tahoe.table.arrow.chunks import one_array, taken_table, text_bytes
from tahoe.table.arrow.parquet import NestedColumns, child
from tahoe.table.arrow.possible_statistics import possible_bounds, possible_counts, possible_nulls
from tahoe.table.arrow.types import arrow_type

Path: TypeAlias = tuple[str, ...]

# The size of the cached statistics for each part of a snapshot.
CACHED_BYTES_MAX = 256 << 20

# The number of texts parsed at a time: large enough to be fast, small enough to use all cores and little memory.
_SLICE_ROWS = 1 << 15


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """The columns whose statistics are wanted, by physical path, with their types."""

    columns: Mapping[Path, DataType]


def column_name(kind: str, path: Path = ()) -> str:
    """The name of a column in a table of statistics: `num_records`, `tight_bounds`, or min, max, null_count of a
    path.
    """
    return kind if not path else kind + ":" + "\x1f".join(path)


def bound_type(data_type: DataType) -> pa.DataType | None:
    """The Arrow type of a column's minimum and maximum; None if the type has no bounds. Those of variants are texts, as
    in JSON.
    """
    if isinstance(data_type, Decimal):
        return pa.decimal128(data_type.precision, data_type.scale)
    return _BOUND_TYPES.get(data_type.name) if isinstance(data_type, Primitive) else None


_BOUND_TYPES: Mapping[str, pa.DataType] = {
    "byte": pa.int64(),
    "short": pa.int64(),
    "integer": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "variant": pa.string(),
}

# The field of a checkpoint's `add` with statistics as typed columns.
STATS_PARSED = "stats_parsed"

# The protocol's fields with bounds, and our names for them.
_BOUNDS = {"minValues": "min", "maxValues": "max"}


def table_schema(request: StatisticsRequest) -> pa.Schema:
    fields = [(column_name("num_records"), pa.int64()), (column_name("tight_bounds"), pa.bool_())]
    for path, data_type in request.columns.items():
        fields.append((column_name("null_count", path), pa.int64()))
        if bound := bound_type(data_type):
            fields.extend((column_name(kind, path), bound) for kind in _BOUNDS.values())
    return pa.schema(fields)


def no_statistics(rows: int, request: StatisticsRequest) -> pa.Table:
    schema = table_schema(request)
    return pa.table([pa.nulls(rows, f.type) for f in schema], schema=schema)


class StatisticsCache:
    """A cache of typed statistics of some files, by column. Thread-safe."""

    def __init__(self, cached: Mapping[Path, pa.Table] | None = None) -> None:
        self._cached: dict[Path, pa.Table] = dict(cached or {})
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[StatisticsCache], tuple[()]]:
        """In another process, such as a worker of an executor, the cache is empty."""
        return StatisticsCache, ()

    def answer(self, request: StatisticsRequest, read: Callable[[StatisticsRequest], pa.Table]) -> pa.Table:
        """The statistics; only columns that are not cached are read."""
        with self._lock:
            known = {path: self._cached[path] for path in ((), *request.columns) if path in self._cached}
        missing = {path: data_type for path, data_type in request.columns.items() if path not in known}
        if missing or () not in known:
            found = read(StatisticsRequest(missing))
            known.update({path: found.select(_names(path, request)) for path in ((), *missing)})
        self._cache(known)
        columns = {name: table.column(name) for table in known.values() for name in table.column_names}
        schema = table_schema(request)
        return pa.table([columns[f.name] for f in schema], schema=schema)

    def _cache(self, used: Mapping[Path, pa.Table]) -> None:
        """Cache the columns that were used, and evict the least recently used."""
        with self._lock:
            for path, table in used.items():
                self._cached.pop(path, None)
                self._cached[path] = table
            while len(self._cached) > 1 and sum(table.nbytes for table in self._cached.values()) > CACHED_BYTES_MAX:
                self._cached.pop(next(iter(self._cached)))

    def take(self, rows: pa.Array) -> StatisticsCache:
        """The cache reduced to some of the files."""
        with self._lock:
            return StatisticsCache({path: taken_table(table, rows) for path, table in self._cached.items()})


def _names(path: Path, request: StatisticsRequest) -> list[str]:
    """The columns of a table of statistics that belong to a path; for the empty path, those of the file itself."""
    if not path:
        return [column_name("num_records"), column_name("tight_bounds")]
    return list(table_schema(StatisticsRequest({path: request.columns[path]})).names[2:])


def parse_statistics(texts: pa.ChunkedArray, request: StatisticsRequest) -> pa.Table:
    """Typed statistics from JSON, one row per text; null for null texts."""
    slices = [chunk.slice(start, _SLICE_ROWS) for chunk in texts.chunks for start in range(0, len(chunk), _SLICE_ROWS)]
    if not slices:
        return no_statistics(0, request)
    return pa.concat_tables(
        on_all_cores(lambda texts: _possible(_parse_slice(texts, request), request, from_json=True), slices)
    )


def _possible(table: pa.Table, request: StatisticsRequest, *, from_json: bool) -> pa.Table:
    """The statistics that can be true; the others are null."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    records = columns["num_records"] = possible_counts(columns["num_records"])
    for path, data_type in request.columns.items():
        nulls = column_name("null_count", path)
        columns[nulls] = possible_nulls(columns[nulls], records)
        if bound_type(data_type) and data_type != VARIANT:
            names = {kind: column_name(kind, path) for kind in _BOUNDS.values()}
            bounds = possible_bounds(
                {kind: columns[name] for kind, name in names.items()}, data_type, from_json=from_json
            )
            columns |= {names[kind]: column for kind, column in bounds.items()}
    return pa.table(columns, schema=table.schema)


# How all common writers begin a text. Strings inside have their quotes escaped, so nothing else can look like this.
_COUNTED = '{"numRecords":'


def record_counts(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """`numRecords` of JSON statistics; null for null texts. Much faster than `parse_statistics`, because most texts
    begin with it.
    """
    return pa.chunked_array([_record_counts(chunk) for chunk in texts.chunks], pa.int64())


def _record_counts(texts: pa.StringArray) -> pa.Int64Array:
    counts = _leading_counts(texts)
    others = pc.and_(counts.is_null(), texts.is_valid())
    if not pc.any(others).as_py():
        return counts
    parsed = parse_statistics(pa.chunked_array([texts.filter(others)]), StatisticsRequest({}))
    return pc.replace_with_mask(counts, others, one_array(parsed.column("num_records")))


def _leading_counts(texts: pa.StringArray) -> pa.Int64Array:
    """`numRecords` of the texts that begin with it; null for others. One digit of all texts is read at a time."""
    begins = pc.and_(pc.starts_with(texts, _COUNTED), pc.ends_with(texts, "}"))  # the end stops every row of digits
    rows = np.flatnonzero(pc.fill_null(begins, False))
    starts, data = text_bytes(texts)
    first = starts[rows] + len(_COUNTED)
    position, numbers = first.copy(), np.zeros(len(rows), np.int64)
    for _ in range(_DIGITS_MAX):
        digits = data[position] - ord("0")  # unsigned, so that other characters are large numbers
        is_digit = digits < 10
        if not is_digit.any():
            break
        numbers = np.where(is_digit, 10 * numbers + digits, numbers)
        position += is_digit
    is_number = (position > first) & np.isin(data[position], [ord(","), ord("}")])
    is_number &= (data[first] != ord("0")) | (position == first + 1)
    found, is_unknown = np.zeros(len(texts), np.int64), np.ones(len(texts), bool)
    found[rows], is_unknown[rows] = numbers, ~is_number
    return pa.array(found, mask=is_unknown)


# Numbers with more digits are left to the parser.
_DIGITS_MAX = 12


def _parse_slice(texts: pa.StringArray, request: StatisticsRequest) -> pa.Table:
    """Parse all texts at once. If one of them does not fit, parse each text alone; values that do not fit become
    null.
    """
    lines = texts
    if texts.null_count or pc.min(pc.binary_length(texts)).as_py() == 0:
        lines = pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), "{}", texts)
    try:
        if not pc.all(pc.and_(pc.starts_with(lines, "{"), pc.ends_with(lines, "}"))).as_py():
            raise pa.ArrowInvalid("a text is not a JSON object")
        parsed = _read_json(pa.py_buffer(text_bytes(lines)[1]), pa.schema(_json_fields(request)))
        if parsed.num_rows != len(texts):
            raise pa.ArrowInvalid("a text contains more than one JSON object")
        return _statistics_table(parsed, request)
    except pa.ArrowInvalid:
        rows = [_lenient(text, request) for text in lines.to_pylist()]
        return pa.Table.from_pylist(rows, schema=table_schema(request))


def _read_json(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """JSON objects as rows, in one block, so that no object is split. They need no separator."""
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(block_size=data.size + 1, use_threads=False),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _json_fields(request: StatisticsRequest) -> list[pa.Field]:
    """The schema of the JSON text, reduced to the requested columns."""
    fields = [pa.field("numRecords", pa.int64()), pa.field("tightBounds", pa.bool_())]
    if request.columns:
        fields.append(pa.field("nullCount", _nested(dict.fromkeys(request.columns, pa.int64()))))
    bounds = {path: _json_type(kind) for path, t in request.columns.items() if (kind := bound_type(t))}
    if bounds:
        fields.extend(pa.field(name, _nested(bounds)) for name in _BOUNDS)
    return fields


def _json_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == pa.date32() else kind  # pyarrow's JSON reader parses dates only from numbers


def _nested(leaves: Mapping[Path, pa.DataType]) -> pa.DataType:
    """A struct with each leaf at its path."""
    groups: dict[str, dict[Path, pa.DataType]] = {}
    for path, kind in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct([pa.field(name, inner[()] if () in inner else _nested(inner)) for name, inner in groups.items()])


def _statistics_table(parsed: pa.Table, request: StatisticsRequest) -> pa.Table:
    columns = {"num_records": parsed.column("numRecords"), "tight_bounds": parsed.column("tightBounds")}
    for path, data_type in request.columns.items():
        columns[column_name("null_count", path)] = _at(parsed, ("nullCount", *path))
        if bound := bound_type(data_type):
            for name, kind in _BOUNDS.items():
                columns[column_name(kind, path)] = _at(parsed, (name, *path)).cast(bound)
    return pa.table(columns, schema=table_schema(request))


def _at(table: pa.Table, path: Path) -> pa.ChunkedArray:
    column = table.column(path[0])
    for name in path[1:]:
        column = child(column, name)
    return column


def _lenient(text: str, request: StatisticsRequest) -> dict[str, Any]:
    """The statistics of one text that are present and fit their type."""
    try:
        value = load_json(text)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    row: dict[str, Any] = {"num_records": _as_typed(value.get("numRecords"), pa.int64())}
    row["tight_bounds"] = _as_typed(value.get("tightBounds"), pa.bool_())
    for path, data_type in request.columns.items():
        row[column_name("null_count", path)] = _as_typed(_dig(value.get("nullCount"), path), pa.int64())
        if bound := bound_type(data_type):
            for name, kind in _BOUNDS.items():
                row[column_name(kind, path)] = _as_typed(_dig(value.get(name), path), bound)
    return row


def _dig(value: Any, path: Iterable[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _as_typed(value: Any, kind: pa.DataType) -> Any:
    """The value converted to its type by the same reader as in the fast path; None if it does not fit."""
    if value is None:
        return None
    try:
        parsed = _read_json(pa.py_buffer(json.dumps({"v": value}).encode()), pa.schema([("v", _json_type(kind))]))
        return parsed.column("v").cast(kind)[0].as_py()
    except pa.ArrowInvalid:
        return None


# --- typed statistics of a checkpoint


def parsed_statistics(
    texts: pa.ChunkedArray, columns: Mapping[Path, DataType], *, with_variants: bool
) -> pa.ChunkedArray:
    """`stats_parsed` for JSON texts; null for null texts. A bound that does not fit its column's type is null.

    Args:
        columns: the physical paths of the columns that have statistics, with their types.
        with_variants: whether variants have bounds.
    """
    flat = parse_statistics(texts, StatisticsRequest(columns))
    leaves: dict[Path, pa.Array] = {("numRecords",): flat["num_records"], ("tightBounds",): flat["tight_bounds"]}
    for field, name in _BOUNDS.items():
        for path, kind in columns.items():
            bounds = flat[column_name(name, path)] if bound_type(kind) else None
            if bounds is not None and kind != VARIANT:
                leaves[(field, *path)] = _narrow(bounds, arrow_type(kind))
            elif bounds is not None and with_variants:
                leaves[(field, *path)] = _variant_column(bounds)
    leaves |= {("nullCount", *path): flat[column_name("null_count", path)] for path in columns}
    arrays = {path: one_array(values) for path, values in leaves.items()}
    return pa.chunked_array([nested_array(arrays, one_array(pc.is_null(texts)))])


_VARIANT = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])
_Z85_DIGITS = np.full(256, 85, np.uint64)
_Z85_DIGITS[list(Z85.encode())] = np.arange(85)
_Z85_PLACES = np.array([85**4, 85**3, 85**2, 85, 1], np.uint64)


def variants_of_texts(texts: pa.ChunkedArray) -> list[bytes | None]:
    """The binary form of variants in Z85; None for nulls and for what is not Z85. Each begins with its metadata."""
    array = one_array(texts)
    starts, data = text_bytes(array)
    digits, is_there = _Z85_DIGITS[data], array.is_valid().to_pylist()
    if not (starts % 5).any() and digits.max(initial=0) < 85:
        numbers = digits.reshape(-1, 5) @ _Z85_PLACES
        if numbers.max(initial=0) < 1 << 32:
            content, places = numbers.astype(">u4").tobytes(), (starts // 5 * 4).tolist()
            pieces = zip(is_there, places, places[1:], strict=False)
            return [content[start:end] if there else None for there, start, end in pieces]
    return [None if text is None else _variant_of(text) for text in array.to_pylist()]


def _variant_of(text: str) -> bytes | None:
    try:
        return z85_decode(text)
    except ValueError:
        return None


def _variant_column(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Variants in Z85 as a column of Parquet files; null for what is no object."""
    parts = list(map(_parts, variants_of_texts(texts)))
    columns = [pa.array([part[side] for part in parts], pa.binary()) for side in (0, 1)]
    mask = pa.array([not metadata for metadata, _ in parts], pa.bool_())
    return pa.chunked_array([pa.StructArray.from_arrays(columns, fields=list(_VARIANT), mask=mask)])


def _parts(variant: bytes | None) -> tuple[bytes, bytes]:
    try:
        return (b"", b"") if variant is None else parts_of(variant)
    except ValueError:
        return b"", b""


def _variant_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of unshredded variants in Z85."""
    parts = (child(column, name).to_pylist() for name in ("metadata", "value"))
    texts = [None if None in both else z85_encode(b"".join(both)) for both in zip(*parts, strict=True)]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _narrow(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast integers to the type of their column; values that do not fit are null."""
    if not pa.types.is_integer(kind):
        return values.cast(kind)
    fits = pc.equal(values.cast(kind, safe=False).cast(values.type), values)
    return pc.if_else(fits, values, None).cast(kind)


def nested_array(leaves: Mapping[Path, pa.Array], mask: pa.Array | None = None) -> pa.StructArray:
    """Arrays at paths as one nested array."""
    groups: dict[str, dict[Path, pa.Array]] = {}
    for path, values in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = values
    arrays = [inner[()] if () in inner else nested_array(inner) for inner in groups.values()]
    return pa.StructArray.from_arrays(arrays, names=list(groups), mask=mask)


def texts_of_parsed(parsed: pa.ChunkedArray, schema: Struct) -> pa.ChunkedArray:
    """JSON texts for `stats_parsed`, for checkpoints without JSON statistics; null where `stats_parsed` is null.

    A bound that does not fit its column's type is left out: the type may be another one since the checkpoint.

    Args:
        schema: with physical names.
    """
    types: dict[Path, pa.DataType] = {("numRecords",): pa.int64(), ("tightBounds",): pa.bool_()}
    for path, field in schema.leaves():
        bound = bound_type(field.type)
        types |= {
            ("nullCount", *path): pa.int64(),
            **({} if bound is None else {(name, *path): bound for name in _BOUNDS}),
        }
    columns = {path: _values(parsed, path, kind) for path, kind in types.items()}
    rows = zip(parsed.is_null().to_pylist(), *columns.values(), strict=True)
    texts = [None if is_null else _text(dict(zip(columns, values, strict=True)), schema) for is_null, *values in rows]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _values(parsed: pa.ChunkedArray, path: Path, kind: pa.DataType) -> list[Any]:
    """One statistic of all files, dates and timestamps as in footers; None where it is missing or does not fit its
    type.
    """
    return python_values(_conform(_inside(parsed, path), kind, len(parsed)))


def _inside(parsed: pa.ChunkedArray, path: Path) -> pa.ChunkedArray | None:
    """The field at a path; None if there is none."""
    column: pa.ChunkedArray | None = parsed
    for name in path:
        has = column is not None and pa.types.is_struct(column.type) and column.type.get_field_index(name) >= 0
        column = child(column, name) if has else None
    return column


def python_values(bounds: pa.ChunkedArray) -> list[Any]:
    """Bounds as values of Python. A date or a time that Python's calendar does not include is its number of days or
    microseconds.
    """
    if pa.types.is_date(bounds.type):
        return [None if days is None else from_days(days) for days in bounds.cast(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(bounds.type):
        return [
            None if micros is None else from_micros(micros, bounds.type.tz and UTC)
            for micros in bounds.cast(pa.int64()).to_pylist()
        ]
    return list(bounds.to_pylist())


def _text(row: Mapping[Path, Any], schema: Struct) -> str:
    """The text of `add.stats` for one row of typed statistics. Bounds are not cut again."""

    def values(field: str) -> dict[Path, Any]:
        return {path[1:]: value for path, value in row.items() if path[0] == field and value is not None}

    statistics = Statistics(
        num_records=row[("numRecords",)],
        tight_bounds=row[("tightBounds",)] is not False,
        min_values=values("minValues"),
        max_values=values("maxValues"),
        null_count=values("nullCount"),
    )
    return encode_statistics(statistics, schema, prefix_length=_AS_THEY_ARE)


# Texts in a checkpoint are already truncated.
_AS_THEY_ARE = 1 << 30


def read_parsed_statistics(columns: NestedColumns, request: StatisticsRequest) -> pa.Table | None:
    """The checkpoint's `stats_parsed` for all rows of the file; None if it is missing or cannot answer the request."""
    if any("." in name for path in request.columns for name in path):
        return None  # Parquet's dotted paths would be ambiguous
    wanted: dict[str, Path] = {"num_records": ("numRecords",), "tight_bounds": ("tightBounds",)}
    for path, data_type in request.columns.items():
        wanted[column_name("null_count", path)] = ("nullCount", *path)
        if bound_type(data_type):
            wanted.update({column_name(kind, path): (name, *path) for name, kind in _BOUNDS.items()})
    found = dict(zip(wanted, columns.read([("add", STATS_PARSED, *path) for path in wanted.values()]), strict=True))
    if found["num_records"] is None:
        return None
    schema = table_schema(request)
    typed = pa.table([_conform(found[f.name], f.type, columns.num_rows) for f in schema], schema=schema)
    return _possible(typed, request, from_json=False)


def read_parsed_counts(columns: NestedColumns) -> pa.ChunkedArray | None:
    """`numRecords` of the checkpoint's `stats_parsed` for all rows of the file; None if it is missing."""
    (found,) = columns.read([("add", STATS_PARSED, "numRecords")])
    return None if found is None else possible_counts(_conform(found, pa.int64(), columns.num_rows))


def bounds_of_parsed(
    parsed: pa.ChunkedArray, path: Path, data_type: DataType
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The least and the greatest value of a column by `stats_parsed`; null where they are missing or do not fit the
    type.

    Args:
        data_type: of the column, which has bounds.
    """
    kind = bound_type(data_type)
    assert kind is not None
    bounds = {name: _conform(_inside(parsed, (field, *path)), kind, len(parsed)) for field, name in _BOUNDS.items()}
    found = possible_bounds(bounds, data_type, from_json=False)
    return found["min"], found["max"]


def _conform(column: pa.ChunkedArray | None, kind: pa.DataType, rows: int) -> pa.ChunkedArray:
    if column is not None:
        try:
            if kind == pa.string() and _is_whole_variant(column.type):
                column = _variant_texts(column)
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # not the column's type: the statistic is ignored
    return pa.chunked_array([pa.nulls(rows, kind)], type=kind)


def _is_whole_variant(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"metadata", "value"}
