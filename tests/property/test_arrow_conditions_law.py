"""A condition of `pyarrow.compute` on a table gives the rows that Arrow gives for it: no file is left out that has one
of them.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from functools import cache, reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tests.table.builders import memory_env

FILES, ROWS = 12, 3

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-5, 0, 1, 2, 3, 1000]),
    "l": (pa.int64(), [-(2**60), -1, 0, 1, 2**53 + 1, 2**60]),
    "d": (pa.float64(), [-1.5, -0.0, 0.0, 1.0, 2.0, 1e300, math.nan, math.inf]),
    "f": (pa.float32(), [-1.5, 0.0, 0.5, math.nan]),
    "s": (pa.string(), ["", "a", "ab", "b", "ü", "\U0001f600", "x" * 40]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(9999, 12, 31)]),
    "ts": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 1, n, microsecond=n, tzinfo=dt.UTC) for n in range(4)]),
    "ntz": (pa.timestamp("us"), [dt.datetime(2026, 1, 1, n, microsecond=n) for n in range(4)]),
    "dec": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("0.01"), Decimal("99999999.99")]),
    "b": (pa.bool_(), [True, False]),
    "st": (pa.struct([("x", pa.int64())]), [{"x": 1}, {"x": 5}, {"x": None}]),
}


@cache
def table(partition: str | None) -> tahoe.Table:
    """Files of few rows each, whose values are neighbours, so that many can be left out; every column has nulls."""
    dice = random.Random(str(partition))
    made = tahoe.Table("/t", env=memory_env())
    for _ in range(FILES):
        columns = {}
        for name, (kind, values) in VALUES.items():
            near = dice.randrange(len(values))
            few = [None, *values[near : near + 2]]
            columns[name] = pa.array([dice.choice(few) for _ in range(ROWS)], kind)
        made.append(pa.table(columns), partition_by=None if partition is None or made.exists() else [partition])
    return made


@st.composite
def comparisons(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(VALUES)))
    kind, values = VALUES[name]
    column = pc.field(name)
    if name == "st":
        column, kind, values = pc.field("st", "x"), pa.int64(), [1, 3, 5]
    value = draw(st.sampled_from(values))
    scalar = value if draw(st.booleans()) else pa.scalar(value, kind)
    among = pa.array([*draw(st.lists(st.sampled_from(values), max_size=3)), *draw(st.sampled_from([[], [None]]))], kind)
    by_duckdb = pc.if_else(column.is_valid(), column.isin(among), pa.scalar(None, pa.bool_()))
    tests = [
        *(column == scalar, column != scalar, column < scalar, column <= scalar, column > scalar, column >= scalar),
        *(
            column.isin(among),
            by_duckdb,
            column.is_null(),
            column.is_valid(),
            column.is_null(nan_is_null=name in ("d", "f")),
        ),
        *([column] if name == "b" else []),
        *([column == 1] if name in ("i", "l", "d") else []),
        *([column < 2**53, column > -1] if name == "d" else []),
    ]
    return draw(st.sampled_from(tests))


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: reduce(and_, parts)),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: reduce(or_, parts)),
        inner.map(lambda part: ~part),
    ),
    max_leaves=6,
)


@given(CONDITIONS, st.sampled_from([None, "b", "day", "i", "d"]))
def test_no_row_is_lost_and_none_is_added(condition: pc.Expression, partition: str | None) -> None:
    snapshot = table(partition).snapshot()
    every = snapshot.to_arrow()
    expected = every.append_column("n", pa.array(range(every.num_rows))).filter(condition)
    found = snapshot.to_pyarrow_dataset().to_table(filter=condition)
    assert found.num_rows == expected.num_rows == snapshot.count(condition), str(condition)
    assert str(found.to_pylist()) == str(expected.drop_columns("n").to_pylist())


def test_files_are_left_out() -> None:
    """The law above holds also if none ever is."""
    first = {name: values[0] for name, (_, values) in VALUES.items() if name not in ("b", "f", "st")}
    kept = [table(None).scan(pc.field(name).isin([value])).kept_files for name, value in first.items()]
    assert max(kept) < FILES
