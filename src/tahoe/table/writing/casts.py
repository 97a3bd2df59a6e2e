"""Schema enforcement: which data of another type than its column's a write casts, and which it refuses before any row
is written.
"""

from __future__ import annotations

from enum import Enum

from tahoe.protocol.types.schema import (
    BINARY,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
)

_INTEGERS = frozenset({BYTE, SHORT, INTEGER, LONG})
_TIMES = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})


class Casts(Enum):
    """The casts of a kind of write.

    - ANY: the writer decides; Spark's store assignment by name, and assigned values.
    - IMPLICIT: those that Spark makes unasked between its types: a stream's, and those of a MERGE that evolves the
      schema.
    - KEPT: between numbers, and between dates and times, as long as each value is kept; the writer looks at the values.
      For Arrow data, whose types are seldom chosen: pandas has integers of 64 bits.
    - NONE: a DataFrame that is saved by a path.
    """

    ANY = "any"
    IMPLICIT = "implicit"
    KEPT = "kept"
    NONE = "none"

    def allows(self, given: DataType, wanted: DataType) -> bool:
        """Whether data of a type may be written into a column of another type. Neither of them is nested in the same
        way as the other.
        """
        match self:
            case Casts.ANY:
                return True
            case Casts.IMPLICIT:
                return _is_implicit(given, wanted)
            case Casts.KEPT:
                return _may_keep(given, wanted)
            case Casts.NONE:
                return False


def _is_implicit(given: DataType, wanted: DataType) -> bool:
    """Spark's implicit casts (`TypeCoercion.implicitCast`)."""
    if isinstance(given, Struct | Array | Map):
        return False
    if wanted == STRING or (_is_number(given) and _is_number(wanted)) or (given in _TIMES and wanted in _TIMES):
        return True
    return given == STRING and (_is_number(wanted) or wanted in _TIMES or wanted == BINARY)


def _may_keep(given: DataType, wanted: DataType) -> bool:
    """Whether Arrow casts values of the first type to the second one, and refuses those that it would change."""
    if given in _TIMES:
        return wanted in _TIMES
    if given in _INTEGERS:
        return _is_number(wanted)
    if given in (FLOAT, DOUBLE):
        return wanted in (FLOAT, DOUBLE) or wanted in _INTEGERS
    return isinstance(given, Decimal) and (isinstance(wanted, Decimal) or wanted in _INTEGERS)


def _is_number(kind: DataType) -> bool:
    return kind in _INTEGERS or kind in (FLOAT, DOUBLE) or isinstance(kind, Decimal)
