"""A value in a partition column stays what it is, whatever writes it without Spark and whatever folders can be named;
the empty text is null. tests/spark/test_partition_texts.py asks Spark's writer the same.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import UnsupportedOperationError
from tahoe.protocol.types.partitions import HIVE_NULL

UTC14 = dt.timezone(dt.timedelta(hours=14))
VALUES: dict[pa.DataType, list[Any]] = {
    pa.string(): [
        *(
            None,
            "",
            HIVE_NULL,
            f"{HIVE_NULL}_",
            "null",
            "%",
            "%41",
            "a/b",
            "a=b",
            ".",
            "..",
            " ",
            "a ",
            "\\",
            "?",
            "#",
            "e\u0301",
        ),
        *("\0", "a\0", "\1\x1f\x7f", "\n\t", "x" * 255, "x" * 300, "é" * 127, "é" * 128, "\U0001f600" * 64),
    ],
    pa.binary(): [None, b"", b"\0", HIVE_NULL.encode()],
    pa.float64(): [None, math.nan, -0.0, 0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 1e22, 0.1],
    pa.float32(): [math.nan, -0.0, -math.inf, struct.unpack("f", b"\1\0\0\0")[0]],
    pa.timestamp("us", "UTC"): [
        *(dt.datetime(2024, 1, 31, 12, tzinfo=UTC14), dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    ],
    pa.timestamp("us"): [
        dt.datetime(1, 1, 1),
        dt.datetime(2024, 1, 31, 0, 0, 0, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ],
    pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    pa.decimal128(38, 10): [Decimal("9999999999999999999999999999.9999999999"), Decimal("-1E-10")],
    pa.int64(): [2**63 - 1, -(2**63)],
    pa.bool_(): [True, False],
}
CASES = [(kind, value) for kind, values in VALUES.items() for value in values]


def spelled(value: Any) -> str:
    """NaN and the sign of zero count; an empty text is null."""
    return repr(
        None
        if value in ("", b"")
        else value.astimezone(dt.UTC).replace(tzinfo=None)
        if isinstance(value, dt.datetime) and value.tzinfo
        else value
    )


def appended(table: tahoe.Table, data: pa.Table) -> None:
    table.append(data, partition_by=["p"], properties={"delta.enableChangeDataFeed": "true"})


def changed(change: Callable[[tahoe.Table, pa.Table], Any]) -> Callable[[tahoe.Table, pa.Table], None]:
    """A change of a row of another partition."""

    def way(table: tahoe.Table, data: pa.Table) -> None:
        appended(table, pa.table({"id": [1], "p": pa.nulls(1, data.schema.field("p").type)}))
        change(table, data)

    return way


WAYS: dict[str, Callable[[tahoe.Table, pa.Table], None]] = {
    "append": appended,
    "update": changed(lambda table, data: table.update({"p": data["p"][0]})),
    "merge": changed(lambda table, data: table.merge(data, "id").when_matched_update_all().execute()),
    "overwrite": changed(lambda table, data: table.overwrite(data)),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_keeps_a_value(tmp_path: Path, way: str) -> None:
    for number, (kind, value) in enumerate(CASES):
        table = tahoe.Table(tmp_path / str(number))
        WAYS[way](table, pa.table({"id": [1], "p": pa.array([value], kind)}))
        expected = spelled(value)
        assert spelled(table.to_arrow()["p"][0].as_py()) == expected, (kind, value)
        assert spelled(table.changes(start_version=0)["p"][-1].as_py()) == expected, (kind, value)


def test_what_reads_and_rewrites_files_keeps_a_value(tmp_path: Path) -> None:
    for number, (kind, value) in enumerate(CASES):
        table, data = tahoe.Table(tmp_path / str(number)), pa.table({"id": [1], "p": pa.array([value], kind)})
        appended(table, data)
        table.append(data)
        table.optimize()
        table.create_checkpoint()
        table.clone(tmp_path / f"{number} clone")
        for each in (tahoe.Table(table.url), tahoe.Table(tmp_path / f"{number} clone")):
            assert {spelled(found) for found in each.to_arrow()["p"].to_pylist()} == {spelled(value)}, (kind, value)
            where = "p IS NULL" if spelled(value) == "None" else [("p", "=", value)]
            assert each.count(where) == 2, (kind, value)
            assert each.delete(where).deleted == 2, (kind, value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """The log has texts only."""
    with pytest.raises(UnsupportedOperationError, match="Partitioning by a binary column"):
        appended(tahoe.Table(tmp_path), pa.table({"id": [1], "p": [b"\xff\xfe"]}))
