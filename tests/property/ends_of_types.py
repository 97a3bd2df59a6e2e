"""Columns that hold the ends of their types, and literals at and beyond these ends."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

NINES = "9" * 38

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.int8(), [-128, 127, 0, None]),
    "s": (pa.int16(), [-32768, 32767, 0, None]),
    "i": (pa.int32(), [-(2**31), 2**31 - 1, 0, None]),
    "l": (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
    "f": (pa.float32(), [-3.4028234663852886e38, 3.4028234663852886e38, 0.0, None]),
    "x": (pa.float64(), [-1.7976931348623157e308, 1.7976931348623157e308, 5e-324, None]),
    "d0": (pa.decimal128(38, 0), [Decimal(f"-{NINES}"), Decimal(NINES), Decimal(0), None]),
    "d10": (
        pa.decimal128(38, 10),
        [Decimal(f"{sign}{NINES[:28]}.{NINES[:10]}") for sign in ("-", "")] + [Decimal(0), None],
    ),
    "d38": (pa.decimal128(38, 38), [Decimal(f"-0.{NINES}"), Decimal(f"0.{NINES}"), Decimal(0), None]),
    "d52": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("999.99"), Decimal(0), None]),
    "dt": (pa.date32(), [date.min, date.max, date(1970, 1, 1), None]),
    "ts": (
        pa.timestamp("us", "UTC"),
        [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), None],
    ),
    "ntz": (pa.timestamp("us"), [datetime.min, datetime.max, datetime(1970, 1, 1), None]),
    "t": (pa.string(), ["", "\U0010ffff" * 40, "a", None]),
    "bin": (pa.binary(), [b"", b"\xff" * 40, b"a", None]),
}
NUMBERS = ["b", "s", "i", "l", "f", "x", "d0", "d10", "d38", "d52"]
INTEGERS = NUMBERS[:4]
MOMENTS = ["dt", "ts", "ntz"]
DATA = pa.table({"k": [0, 1, 2, 3], **{name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()}})

_WHOLE = [str(sign * (1 << bits) + more) for bits in (7, 15, 31, 63) for sign in (1, -1) for more in (-1, 0)]

# Numbers as both Spark and tahoe compare them: by their exact values.
EXACT_NUMBERS = [
    *_WHOLE,
    NINES,
    f"-{NINES}",
    f"{NINES[:28]}BD",
    f"{NINES[:28]}.5",
    f"{NINES[:28]}.{NINES[:10]}",
    f"{NINES[:29]}.5",
    f"0.{NINES}",
    f"-0.{NINES}",
    f"0.{NINES[:37]}",
    "999.99",
    "999.995",
    "1000",
    "1000.005",
]
DOUBLES = [
    "1E308D",
    "5E-324D",
    "1.7976931348623157E308D",
    "3.5E38D",
    "CAST('NaN' AS DOUBLE)",
    "CAST('-Infinity' AS DOUBLE)",
]
# Spark refuses these, or casts the column to a type in which it is not exact.
BEYOND_SPARK = [
    "9" * 39,
    f"1{'0' * 40}",
    f"0.{'9' * 39}",
    "1E400",
    "-1E400",
    "1E309D",
    "1E38",
    "1e-400",
    f"0.{'0' * 37}1",
]
NUMBER_TEXTS = ["'127'", "'128'", "'1e400'", f"'{'9' * 39}'", "''", "'x'", "NULL"]

DATES = ["'0001-01-01'", "'9999-12-31'", "'+10000-01-01'", "'-0044-03-15'", "'0000-01-01'", "'10000-01-01'"]
MOMENT_LITERALS = [
    *DATES,
    *(f"DATE{text}" for text in DATES),
    "TIMESTAMP'0001-01-01 00:00:00'",
    "TIMESTAMP'9999-12-31 23:59:59.999999'",
    "TIMESTAMP'+10000-01-01 00:00:00'",
    "TIMESTAMP'0000-12-31 23:59:59.999999'",
    "TIMESTAMP'9999-12-31 23:59:59.999999-18:00'",
    "TIMESTAMP'0001-01-01 00:00:00+18:00'",
    "TIMESTAMP'+294247-01-10 04:00:54.775807'",
    "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    "TIMESTAMP_NTZ'+10000-01-01 00:00:00'",
    "NULL",
]
TEXTS = [
    "''",
    f"'{chr(0x10FFFF) * 40}'",
    f"'{chr(0x10FFFF) * 41}'",
    f"'{'z' * 1000}'",
    "NULL",
    "X''",
    "X'FF'",
    f"X'{'FF' * 41}'",
    "1",
]


def literals(column: str) -> list[str]:
    if column in NUMBERS:
        return [*EXACT_NUMBERS, *DOUBLES, *BEYOND_SPARK, *NUMBER_TEXTS]
    return MOMENT_LITERALS if column in MOMENTS else TEXTS


PYTHON_VALUES: list[Any] = [
    *(sign * (1 << bits) + more for bits in (7, 31, 63) for sign in (1, -1) for more in (-1, 0)),
    *(10**digits for digits in (38, 39, 400)),
    *(1e308, 5e-324, float("inf"), float("-inf"), float("nan")),
    *map(Decimal, (f"0.{NINES}", "1E400", "1E-400", "9" * 39, "NaN", "sNaN", "-Infinity")),
    *("128", "x", "1e400", "", "z" * 100_000, "\ud800"),
    *(True, None, b"", b"\xff" * 41, [1], object(), time(1), timedelta(1)),
    *(date.min, date.max, datetime.min, datetime.max, datetime.min.replace(tzinfo=UTC)),
    *(
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ),
]
