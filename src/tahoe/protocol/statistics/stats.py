"""The statistics of a data file, and their JSON encoding.

Protocol: "Per-file Statistics". Columns are identified by their physical paths. Works on one file;
`tahoe.table.arrow.statistics` parses the statistics of a million files, and `tahoe.protocol.statistics.skipping` uses
them for data skipping.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal
from typing import Any, TypeAlias

from tahoe.protocol.configuration.properties import NUM_INDEXED_COLUMNS, STATS_COLUMNS
from tahoe.protocol.statistics.variants import PATHS_MAX, Typed, VariantBounds, encode_bounds
from tahoe.protocol.types.json_text import load_json
from tahoe.protocol.types.partitions import (
    INTEGER_BITS,
    format_partition_value,
    parse_date,
    parse_decimal,
    parse_timestamp,
    parse_timestamp_ntz,
    single_precision,
    to_micros,
)
from tahoe.protocol.types.predicate import order
from tahoe.protocol.types.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    DataType,
    Decimal,
    Field,
    Geospatial,
    Primitive,
    Struct,
)

Path: TypeAlias = tuple[str, ...]

STRING_PREFIX_LENGTH = 32

# Types with minimum and maximum values. As in the reference, boolean and binary columns have a null count only.
_BOUNDED = frozenset({*INTEGER_BITS, "float", "double", "string", "date", "timestamp", "timestamp_ntz"})

# Maxima of strings at least this long may be truncated. The reference truncates at 32 characters, other writers at 16.
CUT_LENGTH_MIN = 16

MILLISECOND_REST_MICROS = 999

# Every decimal of so many digits survives a writer that passes it through a double.
EXACT_DIGITS = 15

# No long has more digits; larger decimals are not expanded to integers.
_INTEGER_DIGITS_MAX = 20

# Appended to a truncated maximum, so that it is not less than the original string.
_TIE_BREAKER_ASCII, _TIE_BREAKER = "\x7f", "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of a file's rows; a missing statistic is unknown.

    Attributes:
        num_records: the physical number of rows in the data file, including rows deleted by a deletion vector.
        tight_bounds: whether the bounds are values of rows that still exist. Wide bounds include all rows but may be
            wider.
        min_values, max_values: by physical path. Strings may be truncated, and timestamps are truncated to
            milliseconds. Of geometries they are the corners of a box, as points in well-known text (WKT). Of variants
            they are `VariantBounds`, or the text of a log.
        null_count: by physical path. With wide bounds it is exact only if it is 0 or `num_records`.
    """

    num_records: int | None = None
    tight_bounds: bool = True
    min_values: Mapping[Path, Any] = field(default_factory=dict, hash=False)
    max_values: Mapping[Path, Any] = field(default_factory=dict, hash=False)
    null_count: Mapping[Path, int] = field(default_factory=dict, hash=False)


def has_bounds(data_type: DataType) -> bool:
    """Whether columns of a type have minimum and maximum values."""
    return isinstance(data_type, Decimal) or (isinstance(data_type, Primitive) and data_type.name in _BOUNDED)


# --- from JSON


def parse_statistics(text: str | None, schema: Struct) -> Statistics | None:
    """The statistics in a JSON text as readers use them, without those that cannot be true: more nulls than rows, a
    minimum above its maximum, a bound that its type does not have. None if they are missing or invalid, because no
    reader needs them for correctness.

    Args:
        schema: with physical names; values that do not match their column's type are ignored.
    """
    claimed = claimed_statistics(text, schema)
    return None if claimed is None else _possible(claimed, schema)


def _possible(claimed: Statistics, schema: Struct) -> Statistics:
    """The statistics without claims that cannot be true: bounds of another type, a minimum above its maximum, and more
    nulls than rows.
    """
    low, high = claimed.min_values, claimed.max_values
    types = {path: column.type for path, column in schema.leaves()}
    low, high = (
        {path: value for path, value in bounds.items() if _is_of_type(value, types[path])} for bounds in (low, high)
    )
    wrong = {
        path for path in low.keys() & high.keys() if types[path] != VARIANT and are_contradictory(low[path], high[path])
    }
    records = claimed.num_records
    return replace(
        claimed,
        min_values={path: value for path, value in low.items() if path not in wrong},
        max_values={path: value for path, value in high.items() if path not in wrong},
        null_count={path: count for path, count in claimed.null_count.items() if records is None or count <= records},
    )


def claimed_statistics(text: str | None, schema: Struct) -> Statistics | None:
    """The statistics in a JSON text, also those that cannot be true; None if it is missing or invalid.

    Args:
        schema: with physical names; values that do not match their column's type are ignored.
    """
    if not text:
        return None
    try:
        body = load_json(text, parse_float=PyDecimal)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    num_records, tight_bounds = body.get("numRecords"), body.get("tightBounds")
    columns = list(schema.leaves())
    return Statistics(
        num_records=num_records if _is_count(num_records) else None,
        tight_bounds=tight_bounds is not False,
        min_values=dict(_bounds(body.get("minValues"), columns)),
        max_values=dict(_bounds(body.get("maxValues"), columns)),
        null_count={
            path: count for path, _ in columns if _is_count(count := stored_value(body.get("nullCount"), path))
        },
    )


def are_contradictory(low: Any, high: Any) -> bool:
    """Whether a minimum is greater than its maximum, by more than a maximum may be truncated."""
    if isinstance(high, str) and len(high) >= CUT_LENGTH_MIN and isinstance(low, str) and low.startswith(high):
        return False
    if isinstance(high, datetime) and isinstance(low, datetime):
        return to_micros(low) > to_micros(high) + MILLISECOND_REST_MICROS
    return order(low, high) > 0


def counted_columns(text: str | None, columns: Iterable[Path]) -> set[Path]:
    """The columns for which a JSON text has a null count, which every column with statistics has."""
    try:
        body = json.loads(text or "null")
    except ValueError:
        return set()
    counts = body.get("nullCount") if isinstance(body, dict) else None
    return {path for path in columns if _is_count(stored_value(counts, path))}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def stored_value(value: Any, path: Path) -> Any:
    """The value at a path in nested JSON objects; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _bounds(body: Any, columns: Iterable[tuple[Path, Field]]) -> Iterator[tuple[Path, Any]]:
    for path, column in columns:
        value = stored_value(body, path)
        if value is not None and (has_bounds(column.type) or column.type == VARIANT):
            bound = parse_bound(value, column.type)
            if bound is not None:
                yield path, bound


def _is_of_type(bound: Any, data_type: DataType) -> bool:
    """Whether a bound is a value of its type: no integer of more bits, and no number that is too large for a double."""
    if isinstance(bound, float):
        return math.isfinite(bound)
    bits = INTEGER_BITS.get(data_type.name) if isinstance(data_type, Primitive) else None
    return bits is None or -(1 << (bits - 1)) <= bound < 1 << (bits - 1)


def parse_bound(value: Any, data_type: DataType) -> Any:
    """A minimum or maximum from its JSON value, with fractional numbers as Decimals; None if it is not a value of the
    type.

    NaN is ignored too, because it does not bound the other values.
    """
    try:
        if isinstance(data_type, Decimal):
            exact = parse_decimal(str(value), data_type)
            return exact if exact == PyDecimal(str(value)) and not isinstance(value, bool) else None
        name = data_type.name if isinstance(data_type, Primitive) else ""
        if name in INTEGER_BITS:
            return _parse_integer(value)
        if name in ("float", "double"):
            return _parse_float(value, name)
        if not isinstance(value, str):
            return None
        return _parse_text_bound(value, name)
    except (ValueError, ArithmeticError):
        return None


def _parse_integer(value: Any) -> int | None:
    if isinstance(value, PyDecimal) and value.adjusted() < _INTEGER_DIGITS_MAX and value == value.to_integral_value():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parse_float(value: Any, name: str) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | PyDecimal):
        return None
    number = single_precision(float(value)) if name == "float" else float(value)
    return None if math.isnan(number) else number


def _parse_text_bound(value: str, name: str) -> Any:
    """A bound that JSON has as a text. A timestamp without a time zone tells no moment, so it is no bound."""
    match name:
        case "string" | "variant":
            return value
        case "date":
            return parse_date(value)
        case "timestamp" if value.endswith("Z") or value[-6:-5] in ("+", "-"):
            return parse_timestamp(value, UTC)
        case "timestamp_ntz":
            return parse_timestamp_ntz(value)
        case _:
            return None


# --- to JSON


def encode_statistics(statistics: Statistics, schema: Struct, *, prefix_length: int = STRING_PREFIX_LENGTH) -> str:
    """The text of `add.stats`, as the reference writes it: truncated strings, timestamps in milliseconds, no NaN or
    infinities.

    Args:
        schema: with physical names; determines the order and the types.
        prefix_length: the number of characters that truncated strings keep (`delta.dataSkippingStringPrefixLength`).
    """
    minima, maxima, counts = [], [], []
    for path, column in schema.leaves():
        if has_bounds(column.type) or isinstance(column.type, Geospatial) or column.type == VARIANT:
            minima.append(
                (path, _bound_json(statistics.min_values.get(path), column.type, prefix_length, is_max=False))
            )
            maxima.append((path, _bound_json(statistics.max_values.get(path), column.type, prefix_length, is_max=True)))
        count = statistics.null_count.get(path)
        counts.append((path, None if count is None else str(count)))
    parts = [] if statistics.num_records is None else [f'"numRecords":{statistics.num_records}']
    parts.extend(
        f'"{name}":{body}'
        for name, values in (("minValues", minima), ("maxValues", maxima), ("nullCount", counts))
        if (body := _nested(values))
    )
    if not statistics.tight_bounds:
        parts.append('"tightBounds":false')
    return "{" + ",".join(parts) + "}"


def _nested(values: Iterable[tuple[Path, str | None]]) -> str:
    """Nested JSON objects along the paths; "" if there are no values."""
    groups: dict[str, list[tuple[Path, str]]] = {}
    for path, text in values:
        if text is not None:
            groups.setdefault(path[0], []).append((path[1:], text))
    parts = [
        f"{json.dumps(name, ensure_ascii=False)}:{inner[0][1] if inner[0][0] == () else _nested(inner)}"
        for name, inner in groups.items()
    ]
    return "{" + ",".join(parts) + "}" if parts else ""


def _bound_json(value: Any, data_type: DataType, prefix_length: int, *, is_max: bool) -> str | None:
    """A bound as JSON; None if it has none. An infinite number is not JSON, and a long text may have no short text
    above it.
    """
    match value:
        case None:
            return None
        case float():
            return repr(value) if math.isfinite(value) else None
        case Mapping():
            return _variant_json(value, prefix_length, is_max=is_max)
        case str() if isinstance(data_type, Geospatial) or data_type == VARIANT:
            return json.dumps(value)
        case PyDecimal():
            return f"{value:f}"
        case str():
            cut = truncate_max(value, prefix_length) if is_max else truncate_min(value, prefix_length)
            return None if cut is None else json.dumps(cut, ensure_ascii=False)
        case datetime() | date() | int() if data_type in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            return json.dumps(_moment_text(value, data_type))
        case _:
            return json.dumps(value)


def _variant_json(bounds: VariantBounds, prefix_length: int, *, is_max: bool) -> str | None:
    """The bounds of a variant as the reference writes them: of its first paths, with times in microseconds."""
    kept: dict[str, Typed] = {}
    for path, (data_type, value) in sorted(bounds.items()):
        short = _short(value, prefix_length, is_max=is_max) if isinstance(value, str) else value
        if short is not None and len(kept) < PATHS_MAX:
            kept[path] = data_type, short
    return json.dumps(encode_bounds(kept)) if kept else None


def _short(text: str, length: int, *, is_max: bool) -> str | None:
    """A bound inside a variant, which the reference cuts in a simpler way than those of columns; None if no character
    is greater than the one behind the cut.
    """
    if not is_max or len(text) <= length:
        return text[:length]
    return text[:length] + _TIE_BREAKER if text[length] < _TIE_BREAKER else None


def _moment_text(value: Any, data_type: DataType) -> str:
    if data_type == DATE:
        return format_partition_value(value, DATE) or ""
    # ISO 8601 with microseconds, truncated to milliseconds.
    text = format_partition_value(to_micros(value), TIMESTAMP) or ""
    return text[: -len("000Z")] + ("Z" if data_type == TIMESTAMP else "")


def truncate_min(text: str, length: int = STRING_PREFIX_LENGTH) -> str:
    """A prefix of at most `length` characters, which is not greater than the string."""
    return text[:length]


def truncate_max(text: str, length: int = STRING_PREFIX_LENGTH) -> str | None:
    """A short string that is not less than this one; None if there is none of at most twice the length.

    The tie breaker at its end must be greater than the character that it replaces.
    """
    if len(text) <= length:
        return text
    for position in range(length, min(len(text), 2 * length)):
        if text[position] < _TIE_BREAKER_ASCII:
            return text[:position] + _TIE_BREAKER_ASCII
        if text[position] < _TIE_BREAKER:
            return text[:position] + _TIE_BREAKER
    return None


# --- which columns have statistics


def statistics_columns(
    schema: Struct,
    partition_columns: Iterable[str],
    configuration: Mapping[str, str],
    *,
    clustering: Iterable[Path] = (),
    table: str = "the table",
) -> tuple[tuple[Path, Field], ...]:
    """The columns for which a new file gets statistics, in the schema's order.

    These are the columns in `delta.dataSkippingStatsColumns` if it is set and one of them exists (a struct includes all
    its fields), else the first `delta.dataSkippingNumIndexedCols` leaf columns, without partition columns. An empty
    list has no columns.

    Args:
        schema: with logical names, which the properties use.
        clustering: logical paths of the clustering columns. Protocol: "Writer Requirements for Clustered Table".

    Raises:
        InvalidPropertyError: one of the properties has an invalid value.
    """
    partitions = {name.lower() for name in partition_columns}
    leaves = [(path, f) for path, f in schema.leaves() if path[0].lower() not in partitions and f.type != VOID]
    listed = STATS_COLUMNS.get(configuration, table=table)
    chosen_paths = {path for path, _ in leaves if _is_listed(path, listed or ())}
    if listed is None or (listed and not chosen_paths):  # another writer may have left a list of columns that are gone
        count = NUM_INDEXED_COLUMNS.get(configuration, table=table)
        chosen_paths = {path for path, _ in (leaves if count < 0 else leaves[:count])}
    clustering_paths = tuple(clustering)
    return tuple((path, f) for path, f in leaves if path in chosen_paths or _is_listed(path, clustering_paths))


def _is_listed(path: Path, listed: Iterable[Path]) -> bool:
    folded = tuple(name.lower() for name in path)
    return any(folded[: len(prefix)] == tuple(name.lower() for name in prefix) for prefix in listed)


def num_records_of(text: str | None) -> int | None:
    """The physical number of rows in a statistics text."""
    found = parse_statistics(text, Struct())
    return None if found is None else found.num_records


def wide_bounds(text: str | None, num_records: int) -> str:
    """The statistics of a file that gets a deletion vector, with its physical number of rows and `tightBounds` false.

    Protocol: "Per-file Statistics". All other values are copied verbatim. Statistics without a number of rows are
    discarded.
    """
    parts = dict(_members(text)) if text and num_records_of(text) is not None else {}
    parts |= {"numRecords": str(num_records), "tightBounds": "false"}
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in parts.items()) + "}"


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The members of a JSON object, with the verbatim text of their values."""
    decoder = json.JSONDecoder()
    position = _after_space(text, text.index("{") + 1)
    while text[position] != "}":
        key, position = decoder.raw_decode(text, position)
        start = _after_space(text, _after_space(text, position) + 1)
        _, end = decoder.raw_decode(text, start)
        yield key, text[start:end]
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)


def _after_space(text: str, position: int) -> int:
    while text[position] in " \t\r\n":
        position += 1
    return position
