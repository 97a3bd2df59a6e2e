"""Expressions that fail for a row, and the condition that Spark has for each, which is that of the error without Spark,
too.
"""

from __future__ import annotations

import pyarrow as pa

FAULTY = pa.table({"i": pa.array([7, None], pa.int32()), "n": pa.array([2, 2], pa.int64()), "s": ["x_y", None]})

FAULTS = {
    "i / (n - 2)": "DIVIDE_BY_ZERO",
    "n div (n - 2)": "DIVIDE_BY_ZERO",
    "i % (n - 2)": "REMAINDER_BY_ZERO",
    "i + 2147483647": "ARITHMETIC_OVERFLOW",
    "n * 9223372036854775807": "ARITHMETIC_OVERFLOW",
    "-2147483648 - i": "ARITHMETIC_OVERFLOW",
    "cast(i as tinyint) + cast(127 as tinyint)": "BINARY_ARITHMETIC_OVERFLOW",
    "cast(i as smallint) * cast(30000 as smallint)": "BINARY_ARITHMETIC_OVERFLOW",
    "cast(300 + i as tinyint)": "CAST_OVERFLOW",
    "cast(n * 3000000000 as int)": "CAST_OVERFLOW",
    "cast(n * 1e30 as bigint)": "CAST_OVERFLOW",
    "cast(s as int)": "CAST_INVALID_INPUT",
    "cast(s as date)": "CAST_INVALID_INPUT",
    "cast(s as double)": "CAST_INVALID_INPUT",
    "cast(s as decimal(4,2))": "CAST_INVALID_INPUT",
    "cast(n * 100000 as decimal(4,2))": "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
}
