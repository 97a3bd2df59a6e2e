"""Join-key pruning of MERGE: uses the keys of the source to skip files and rows of the target that cannot match.

A few keys are listed. For many keys, their minimum and maximum skip files, and a bitmap of their hashes (a Bloom filter
with two bits per hash) skips rows. With n bits per key, a row without a match passes the bitmap with probability (2 /
n)². The join drops such rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe._cached import cached_property
from tahoe.errors import DeltaError
from tahoe.protocol.types.predicate import And, In, Predicate
from tahoe.protocol.types.predicate import Column as ColumnPath
from tahoe.protocol.types.schema import (
    BYTE,
    DATE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Decimal,
    parse_type,
)
from tahoe.spark.jvm.local_rows import local_rows
from tahoe.spark.jvm.plans import Equality, Operand, estimated_bytes
from tahoe.spark.writing.store_assignment import typed_literal

# At most this many keys are listed one by one: each costs a call into the JVM.
LISTED_MAX = 300

# Types whose equal values have equal hashes. Floating point numbers have two zeros; a collation makes different strings
# equal.
_HASHABLE_TYPES = frozenset({BYTE, SHORT, INTEGER, LONG, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ})

# Types whose values Python compares as Spark does, in the type of the column as well as in the type of the key.
_COMPARABLE_TYPES = frozenset({BYTE, SHORT, INTEGER, LONG, STRING})

# If Spark estimates the keys at no more than this, they are fetched with their hashes, and their count and bounds need
# no further job.
_FETCHED_BYTES_MAX = 64 << 20

# With more keys the bitmap does not fit a CPU cache, and few rows would be skipped.
HASHED_MAX = 1 << 22
_BITS_PER_KEY = 16
_LOGS_OF_BITS = range(16, 27)

# The rough size of a row in a file.
_ROW_BYTES = 32

_HASH, _BITMAP = "__tahoe_hash", "__tahoe_bitmap"


@dataclass(frozen=True, slots=True)
class Key:
    """An equality in the join condition, between an expression of the target and one of the source, which have the same
    type.

    Attributes:
        is_null_safe: null equals null.
        path: the target's column, if the key has the column's own values; None if an expression converts them, for
            example to text.
    """

    target: Column
    source: Column
    type: DataType
    is_null_safe: bool
    path: tuple[str, ...] | None


def keys_of(equalities: Iterable[Equality]) -> list[Key]:
    """The usable keys among the equalities of a join condition, whose left side is the target."""
    return [key for equality in equalities if (key := _key(equality)) is not None]


def _key(equality: Equality) -> Key | None:
    target, source = equality.first, equality.second
    if target.side == "right":
        target, source = source, target
    if (target.side, source.side) != ("left", "right") or not (target.never_fails and source.never_fails):
        return None
    data_type = _hashed_type(target)
    return (
        None if data_type is None else Key(target.column, source.column, data_type, equality.is_null_safe, target.path)
    )


def _hashed_type(operand: Operand) -> DataType | None:
    """The type of a key if its values and hashes can skip rows; otherwise None."""
    if operand.type.startswith("string "):  # a collation, which the JSON does not contain
        return None
    try:
        data_type = parse_type(operand.type_json)
    except DeltaError:
        return None
    return data_type if data_type in _HASHABLE_TYPES or isinstance(data_type, Decimal) else None


class Keys:
    """The keys of a source. They are read on first use; if they are few, only once."""

    def __init__(self, keys: Sequence[Key], source: DataFrame, target_bytes: int) -> None:
        self._keys, self._target_bytes = keys, target_bytes
        self._names = [f"__tahoe_key_{number}" for number in range(len(keys))]
        self._source = source.select(*[key.source.alias(name) for key, name in zip(keys, self._names, strict=True)])

    @cached_property
    def _all_keys(self) -> pa.Table | None:
        """All keys with their hashes; None if there are no keys, or possibly too many."""
        if not self._keys:
            return None
        return self._keys_with_hash.toArrow() if estimated_bytes(self._source) <= _FETCHED_BYTES_MAX else None

    @property
    def _keys_with_hash(self) -> DataFrame:
        return self._source.withColumn(_HASH, F.xxhash64(*self._names))

    @cached_property
    def _first(self) -> pa.Table:
        """The fetched keys; if there are none, the first `LISTED_MAX` + 1 keys."""
        if self._all_keys is not None:
            return self._all_keys
        return self._source.limit(LISTED_MAX + 1).toArrow() if self._keys else pa.table({})

    @property
    def _are_listed(self) -> bool:
        return bool(self._keys) and self._first.num_rows <= LISTED_MAX

    @cached_property
    def _summary(self) -> pa.Table:
        """The count and the bounds of keys that are not fetched, in one row."""
        bounds = [
            column
            for name in self._names
            for column in (F.min(name).alias(f"min {name}"), F.max(name).alias(f"max {name}"))
        ]
        return self._source.agg(F.count(F.lit(1)).alias("rows"), *bounds).toArrow()

    def _bounds(self, name: str) -> tuple[Any, Any]:
        """The smallest and the largest value of a key; None for a key without values."""
        if self._all_keys is None:
            return _value(self._summary[f"min {name}"][0]), _value(self._summary[f"max {name}"][0])
        bounds = pc.min_max(self._all_keys[name])
        return _value(bounds["min"]), _value(bounds["max"])

    @cached_property
    def rows(self) -> int:
        """How many rows the source has."""
        return (
            self._first.num_rows
            if self._all_keys is not None or self._are_listed
            else int(self._summary["rows"][0].as_py())
        )

    def predicate(self) -> Predicate:
        """A predicate that holds for all rows of the target that may match. It tests the columns of a composite key
        separately.
        """
        keys = (self._source.toArrow() if self._keys else pa.table({})) if self._all_keys is None else self._all_keys
        parts = [self._members(key, keys[name]) for key, name in zip(self._keys, self._names, strict=True)]
        return And(tuple(part for part in parts if part is not None))

    def _members(self, key: Key, values: pa.ChunkedArray) -> Predicate | None:
        """The values of a key as an IN predicate; None if Python would not evaluate it as Spark does."""
        if key.is_null_safe or key.path is None or key.type not in _COMPARABLE_TYPES:
            return None
        return In(ColumnPath(key.path), tuple(pc.unique(values.drop_null()).to_pylist()))

    def of_target(self) -> list[Column]:
        """The target's side of each key."""
        return [key.target for key in self._keys]

    def candidates(self, target: DataFrame) -> DataFrame:
        """The rows of the target that may match: all matching rows and few others."""
        for key, name in zip(self._keys, self._names, strict=True):
            if not key.is_null_safe:
                target = target.where(self._in_list(key, name) if self._are_listed else self._between(key, name))
        return target if self._are_listed or not self._keys or self.rows > HASHED_MAX else self._in_bitmap(target)

    def _in_list(self, key: Key, name: str) -> Column:
        values = [_value(value) for value in pc.unique(self._first[name].drop_null())]
        if _UNREADABLE in values:
            return F.lit(True)
        return key.target.isin([typed_literal(value, key.type) for value in values]) if values else F.lit(False)

    def _between(self, key: Key, name: str) -> Column:
        low, high = self._bounds(name)
        if low is None:
            return F.lit(False)
        if _UNREADABLE in (low, high):
            return F.lit(True)
        return (key.target >= typed_literal(low, key.type)) & (key.target <= typed_literal(high, key.type))

    def _in_bitmap(self, target: DataFrame) -> DataFrame:
        """The rows for which both bits of the hash are set in the bitmap of the source's hashes."""
        log = _log_of_bits(self.rows, self._target_bytes / _ROW_BYTES)
        keys = self._keys_with_hash.select(_HASH).toArrow() if self._all_keys is None else self._all_keys
        hashes = keys[_HASH].to_numpy().view(np.uint64)
        bits = np.zeros(1 << log, np.uint8)
        for slots in (hashes >> np.uint64(64 - log), hashes & np.uint64((1 << log) - 1)):
            bits[slots.astype(np.int64)] = 1
        words = np.packbits(bits, bitorder="little").view("<i8")
        bitmap = local_rows(
            target.sparkSession, pa.table({_BITMAP: pa.ListArray.from_arrays([0, len(words)], pa.array(words))})
        )
        rows = target.withColumn(_HASH, F.xxhash64(*[key.target for key in self._keys])).crossJoin(F.broadcast(bitmap))
        upper, lower = f"shiftrightunsigned({_HASH}, {64 - log})", f"({_HASH} & {(1 << log) - 1})"
        return rows.where(f"{_has_bit(upper)} and {_has_bit(lower)}").drop(_HASH, _BITMAP)


def _log_of_bits(keys: int, rows: float) -> int:
    """The size of the bitmap, as a power of two. Its target: at most about as many rows without a match pass as there
    are keys.
    """
    bits = max(1, keys * _BITS_PER_KEY, 2 * math.sqrt(keys * rows))
    return min(max(math.ceil(math.log2(bits)), _LOGS_OF_BITS.start), _LOGS_OF_BITS.stop - 1)


def _has_bit(slot: str) -> str:
    return f"getbit({_BITMAP}[cast(shiftright({slot}, 6) as int)], cast({slot} & 63 as int)) = 1"


# A value that Python cannot hold: a date after the year 9999.
_UNREADABLE = object()


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _UNREADABLE
