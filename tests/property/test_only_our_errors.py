"""Law: whatever data and conditions a public call gets, it answers or raises a DeltaError; no error of Arrow's or
NumPy's leaves it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import ArrowFailedError, DeltaError
from tests.examples import fewer
from tests.table.builders import memory_env

COLUMNS = {
    "l": pa.array([1, -(2**63), 2**63 - 1, None]),
    "i": pa.array([0, 1, -1, None], pa.int8()),
    "x": pa.array([float("nan"), -0.0, float("inf"), None]),
    "d": pa.array(
        [Decimal("0.0000000001"), Decimal("9999999999999999999999999999.9999999999"), Decimal(0), None],
        pa.decimal128(38, 10),
    ),
    "t": pa.array(["", "é", "1e400", None]),
    "b": pa.array([b"", b"\xff", b"1", None]),
    "day": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), None]),
    "ts": pa.array([0, 253402300799999999, -62135596800000000, None], pa.timestamp("us", "UTC")),
    "s": pa.array([{"a": 1}, {"a": None}, None, {"a": 2**63 - 1}], pa.struct([("a", pa.int64())])),
    "a": pa.array([[1], [], None, [None]], pa.list_(pa.int64())),
}
OPERANDS = st.sampled_from(
    [
        *(name for name in COLUMNS if name not in ("s", "a")),
        *(
            "s",
            "s.a",
            "a",
            "NULL",
            "0",
            "-1",
            "1e400",
            "-1e-400",
            "0.5",
            "9" * 38,
            "9" * 39 + "BD",
            "0." + "9" * 38 + "BD",
            "99999999999999999999",
        ),
        *(
            "'x'",
            "''",
            "'1e400'",
            "'\\0'",
            "X'ff'",
            "TRUE",
            "DATE'0001-01-01'",
            "DATE'9999-12-31'",
            "TIMESTAMP'2024-01-31 12:00:00'",
        ),
        *(
            "CAST('NaN' AS DOUBLE)",
            "CAST(t AS BIGINT)",
            "CAST(l AS TINYINT)",
            "CAST(x AS DECIMAL(38,37))",
            "CAST(d AS DECIMAL(3,2))",
        ),
        *(
            "l + 1",
            "l * l",
            "-l",
            "l / i",
            "l % i",
            "abs(l)",
            "d * d",
            "day + 1",
            "date_add(day, 2147483647)",
            "length(t)",
            "floor(x)",
        ),
        *(
            "round(x, 400)",
            "substring(t, -5, 2147483647)",
            "coalesce(l, x)",
            "concat(t, l)",
            "IF(x > 0, l, d)",
            "greatest(i, d)",
            "upper(t)",
        ),
    ]
)
TESTS = st.sampled_from(["=", "<", "<=", "<=>", "<>"])
CONDITIONS = st.recursive(
    st.builds("{} {} {}".format, OPERANDS, TESTS, OPERANDS)
    | st.builds("{} IN ({}, {})".format, OPERANDS, OPERANDS, OPERANDS)
    | st.builds("{} BETWEEN {} AND {}".format, OPERANDS, OPERANDS, OPERANDS)
    | st.builds("{} LIKE '{}'".format, OPERANDS, st.sampled_from(["%", "\\\\", "_", "a\\", "[", "("])),
    lambda inner: st.builds("NOT ({})".format, inner) | st.builds("({}) OR ({})".format, inner, inner),
    max_leaves=3,
)
ODD = st.sampled_from(
    [
        pa.array([2**63], pa.uint64()),
        pa.array([dt.timedelta(1)]),
        pa.array([dt.time(1)]),
        pa.array([1], pa.timestamp("ns")),
        pa.array([2**62], pa.timestamp("s")),
        pa.array([2**62], pa.timestamp("ms", "UTC")),
        pa.array([Decimal(10) ** 60], pa.decimal256(76, 10)),
        pa.array([None]),
        pa.array([[None]]),
        pa.array([[{"a": [1]}]]),
        pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64())),
        pa.array([b"\xff"]).view(pa.string()),
        pa.array([{}], pa.struct([])),
        pa.array([1.5], pa.float16()),
        pa.array(["x"]).dictionary_encode(),
        pa.array([2**40], pa.date64()),
        pa.array([float("nan")]),
        pa.array(["1e400"]),
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([2**40])),
        *COLUMNS.values(),
    ]
)


def made() -> tahoe.Table:
    table = tahoe.Table("memory://odd", env=memory_env())
    table.append(pa.table(COLUMNS), properties={"delta.enableChangeDataFeed": "true"})
    return table


CALLS: dict[str, Callable[[tahoe.Table, str], Any]] = {
    "count": lambda table, text: table.count(text),
    "to_arrow": lambda table, text: table.to_arrow(filter=text),
    "to_batches": lambda table, text: list(table.to_batches(filter=text)),
    "changes": lambda table, text: table.changes(start_version=0, filter=text),
    "delete": lambda table, text: table.delete(text),
    "update": lambda table, text: table.update({"t": "'u'"}, text),
    "overwrite": lambda table, text: table.overwrite(pa.table(COLUMNS), text),
    "merge": lambda table, text: table.merge(pa.table({"k": [1]}), text).when_matched_delete().execute(),
}


@given(CONDITIONS)
@fewer(5)
def test_conditions(text: str) -> None:
    table = made()
    for call in CALLS.values():
        with suppress(DeltaError):
            call(table, text)


@given(st.sampled_from([*COLUMNS, "s.a"]), OPERANDS)
@fewer(5)
def test_assignments(column: str, text: str) -> None:
    table = made()
    with suppress(DeltaError):
        table.update({column: text})
    with suppress(DeltaError):
        table.merge(pa.table({"k": [1]}), "true").when_not_matched_by_source_update({column: text}).when_matched_delete(
            "false"
        ).execute()


@given(st.sampled_from(list(COLUMNS)), ODD, st.booleans(), st.booleans())
@fewer(5)
def test_data(column: str, values: pa.Array, is_new: bool, evolves: bool) -> None:
    table = tahoe.Table("memory://new", env=memory_env()) if is_new else made()
    data = pa.table({column: values})
    for call in (
        lambda: table.append(data, merge_schema=evolves),
        lambda: table.overwrite(data, merge_schema=evolves),
        lambda: table.overwrite(data, overwrite_schema=True, partition_by=[column] if evolves else None),
        lambda: (
            table.merge(data, f"target.{column} = source.{column}", merge_schema=evolves)
            .when_matched_update_all()
            .execute()
        ),
        lambda: table.merge(data, "false", merge_schema=evolves).when_not_matched_insert_all().execute(),
        lambda: table.to_arrow(),
        lambda: table.to_pandas(),
        lambda: table.optimize(z_order_by=[column]),
    ):
        with suppress(DeltaError):
            call()


def test_an_error_of_arrow_is_told_with_the_call_and_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of Arrow's that no rule of ours knows: users see ArrowInvalid, and not which table or file it was."""

    def refuse(*_: Any, **__: Any) -> Iterator[Any]:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    table = made()
    monkeypatch.setattr(tahoe.Table, "snapshot", refuse)
    with pytest.raises(ArrowFailedError, match=r"count\(\) of memory://.* failed.*offset overflow") as raised:
        table.count("l = 1")
    assert isinstance(raised.value.__cause__, pa.ArrowInvalid)
