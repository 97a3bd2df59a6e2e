"""Reads the columns of data files as Spark reads them, whoever wrote the files. Knows no table.

Names of columns match in any case, as in Delta schemas. Early dates and timestamps may be in the Julian calendar, which
only Spark converts: the footer says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.protocol.types.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ, DataType
from tahoe.table.arrow.parquet import leaves

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # it imports the file systems of Arrow

# Spark wrote the Julian calendar before these versions, and does so later with a setting, which leaves a footer key.
_VERSION = b"org.apache.spark.version"
_LEGACY = (b"org.apache.spark.legacyDateTime", b"3.0.0")
_LEGACY_INT96 = (b"org.apache.spark.legacyINT96", b"3.1.0")

# The footer keys of a file whose dates and timestamps are Gregorian. If no version is there, Spark's readers do as
# their session says: those of Spark 3 fail at early values by default, and with LEGACY they move them by days.
GREGORIAN = {_VERSION: _LEGACY_INT96[1]}

# 1582-10-15 as days, and 1900-01-01 as microseconds since 1970. Until 1900 the two calendars of Java have different
# time zone offsets.
_GREGORIAN_FROM_DAY = -141_427
_GREGORIAN_FROM_MICROS = -2_208_988_800_000_000


# The key of a field's id in Arrow's metadata.
FIELD_ID = b"PARQUET:field_id"


class FileColumns:
    """The columns of a file, or the fields of one of its structs, as they are looked for: by name or by id, perhaps
    every one of them.
    """

    def __init__(self, columns: pa.Schema | pa.StructType) -> None:
        self._columns = columns
        self._inside: dict[str, FileColumns | None] = {}

    def named(self, name: str) -> pa.Field | None:
        """The column that has a name: an exact match, or else the one that differs only in case.

        Raises:
            pyarrow.ArrowInvalid: several fit.
        """
        place = self._columns.get_field_index(name)
        if place >= 0:
            return self._columns.field(place)
        found = self._by_folded_name.get(name.lower(), [])
        if len(found) > 1:
            raise pa.ArrowInvalid(
                f"several of its columns match {name}, because case is ignored: {', '.join(f.name for f in found)}"
            )
        return found[0] if found else None

    def with_id(self, number: int) -> pa.Field | None:
        """The first column that has a field id."""
        return self._by_id.get(str(number).encode())

    def inside(self, field: pa.Field) -> FileColumns | None:
        """The fields of one of the columns; None if it is not a struct."""
        if field.name not in self._inside:
            self._inside[field.name] = FileColumns(field.type) if pa.types.is_struct(field.type) else None
        return self._inside[field.name]

    @cached_property
    def _by_folded_name(self) -> dict[str, list[pa.Field]]:
        found: dict[str, list[pa.Field]] = {}
        for field in self._columns:
            found.setdefault(field.name.lower(), []).append(field)
        return found

    @cached_property
    def _by_id(self) -> dict[bytes | None, pa.Field]:
        return {(field.metadata or {}).get(FIELD_ID): field for field in reversed(list(self._columns))}


def check_same_kind(stored: pa.DataType, wanted: pa.DataType) -> None:
    """Refuse a column whose values Arrow could convert, but which are of another kind than the table's: Spark does not
    read it.

    Raises:
        pyarrow.ArrowInvalid: texts for numbers or times, numbers for texts or booleans, and the like.
    """
    kinds = [
        next((number for number, tests in enumerate(_KINDS) if any(test(kind) for test in tests)), None)
        for kind in (stored, wanted)
    ]
    if None not in kinds and kinds[0] != kinds[1]:
        raise pa.ArrowInvalid("values of another kind")


# Canonical types of one kind are read as each other, as far as the values fit.
_KINDS: Sequence[Sequence[Callable[[pa.DataType], bool]]] = (
    (pa.types.is_boolean,),
    (pa.types.is_string, pa.types.is_binary),
    (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal),
)


def julian_before(footer: pq.FileMetaData) -> Mapping[DataType, int]:
    """The types whose values may be in the Julian calendar if they are below a limit: days or microseconds since
    1970.
    """
    keys = footer.metadata or {}

    def is_legacy(key: bytes, since: bytes) -> bool:
        return key in keys or keys.get(_VERSION, since) < since  # Spark compares versions as text too

    dates = is_legacy(*_LEGACY)
    times = dates or (is_legacy(*_LEGACY_INT96) and _has_int96(footer))
    found: dict[DataType, int] = {DATE: _GREGORIAN_FROM_DAY} if dates else {}
    return {**found, **dict.fromkeys((TIMESTAMP, TIMESTAMP_NTZ), _GREGORIAN_FROM_MICROS)} if times else found


def _has_int96(footer: pq.FileMetaData) -> bool:
    return any(footer.schema.column(number).physical_type == "INT96" for number in range(footer.num_columns))


def julian_column(rows: pa.Table, footer: pq.FileMetaData) -> str | None:
    """A Parquet column, at the top or inside others, with values that may be in the Julian calendar; None if there is
    none.

    Args:
        rows: as they are in the file.
    """
    limits = julian_before(footer)
    if not limits:
        return None
    chunks = (
        (name, chunk) for name, column in zip(rows.column_names, rows.columns, strict=True) for chunk in column.chunks
    )
    columns = (leaf for name, chunk in chunks for leaf in leaves(name, chunk))
    return next((path for path, values in columns if _is_julian(values, limits)), None)


def _is_julian(values: pa.Array, limits: Mapping[DataType, int]) -> bool:
    kind = values.type
    if pa.types.is_date(kind) and DATE in limits:
        first = pa.scalar(limits[DATE], pa.date32())
    elif pa.types.is_timestamp(kind) and TIMESTAMP in limits:
        first = pa.scalar(limits[TIMESTAMP], pa.timestamp("us", kind.tz))
    else:
        return False
    return pc.any(pc.less(values, first.cast(kind))).as_py() is True
