"""What data files have otherwise than the table's schema says is read natively as Spark reads it, or by Spark's
reader.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tahoe
from tests.spark.foreign import adds_of, commit, mark
from tests.spark.natively import NEEDS_COMET, as_spark, reads_natively, rows

pytestmark = [pytest.mark.every_case, NEEDS_COMET]

NAN = float("nan")


@dataclass(frozen=True)
class Kind:
    """A kind of table, and queries of `t`. `is_native`: no scan of the queries is Spark's."""

    make: Callable[[SparkSession, str], None]
    queries: Sequence[str]
    is_native: bool = True


def _converted(spark: SparkSession, path: str, *files: pa.Table, **how: Any) -> None:
    """A table of these Parquet files."""
    Path(path).mkdir(parents=True)
    for number, each in enumerate(files):
        pq.write_table(each, Path(path, f"{number}.parquet"), **how)
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")


def _widened(spark: SparkSession, path: str) -> None:
    before = {
        "b": "byte",
        "s": "short",
        "i": "int",
        "f": "float",
        "n": "int",
        "d": "decimal(5, 2)",
        "e": "decimal(9, 2)",
        "y": "byte",
    }
    after = {
        "b": "int",
        "s": "long",
        "i": "long",
        "f": "double",
        "n": "double",
        "d": "decimal(12, 4)",
        "e": "decimal(38, 10)",
    }
    columns = ", ".join(f"{name} {kind}" for name, kind in before.items())
    nested = "st struct<x: int, l: array<short>>, m map<int, float>, day date"
    table = f"delta.`{path}`"
    spark.sql(
        f"create table {table} (id bigint, {columns}, {nested}, p int) using delta partitioned by (p) "
        "tblproperties ('delta.enableTypeWidening' = 'true')"
    )
    made = (
        f"insert into {table} select id, id, -id, if(id % 3 = 0, null, id), if(id % 4 = 0, float('NaN'), id), id * "
        "1000, id, id / 4, id, named_struct('x', id, 'l', array(id, null)), map(id, id), date_add(date'2024-01-01', "
        "int(id)), id % 2 from range({start}, {end}, 1, 1)"
    )
    spark.sql(made.format(start=0, end=30))
    for name, kind in {**after, "y": "decimal(12, 2)", "day": "timestamp_ntz", "st.x": "bigint", "p": "bigint"}.items():
        spark.sql(f"alter table {table} alter column {name} type {kind}")
    for name, kind in (("st.l.element", "int"), ("m.key", "bigint"), ("m.value", "double")):
        spark.sql(f"alter table {table} alter column {name} type {kind}")
    spark.sql(made.format(start=30, end=60))
    spark.sql(f"insert into {table} (id, i, b, p) values (99, 5000000000, 300, 5000000000)")


def _lacking(spark: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    spark.sql("select id, named_struct('x', id) as st, array(named_struct('e', id)) as l from range(20)").write.format(
        "delta"
    ).save(path)
    spark.sql(f"alter table {table} add columns (n int, s string, st.y string, l.element.z double, m map<string, int>)")
    made = "named_struct('x', id, 'y', 'y'), array(named_struct('e', id, 'z', 0.5D)), id, 's', map('k', 1)"
    spark.sql(f"insert into {table} select id, {made} from range(20, 40)")


def _existing(spark: SparkSession, path: str) -> None:
    """Spark's reader has such a value for rows of files without the column. No statement of Delta makes one."""
    spark.range(20).selectExpr("id", "named_struct('x', id) as st").write.format("delta").save(path)
    spark.sql(f"alter table delta.`{path}` add columns (n int, s string)")
    schema = json.loads(tahoe.Table(path).snapshot().metadata.schema_string)
    for column, value in zip(schema["fields"][-2:], ("7", "'seven'"), strict=True):
        column["metadata"] = {"EXISTS_DEFAULT": value, "CURRENT_DEFAULT": value}
    commit(path, tahoe.Table(path).snapshot().metadata.replace(schema_string=json.dumps(schema)))
    spark.sql(f"insert into delta.`{path}` (id, n, s) select id, id, 's' from range(20, 30)")


_PARTITIONS = {
    "b": "cast(id as byte)", "s": "cast(id as short)", "i": "cast(id as int)", "f": "if(id = 1, float('NaN'), float(id))",
    "g": "if(id = 1, -0.0D, 0.0D)", "o": "id % 2 = 0", "d": "date_add(date'2024-01-01', int(id))", "e": "cast(id as decimal(38, 10)) / 3",
    "t": "timestamp'2024-01-01 00:00:00.000001' + make_interval(0, 0, 0, id)",
    "u": "timestamp_ntz'2024-01-01 00:00:00.5' + make_interval(0, 0, 0, id)", "v": "if(id = 0, 'é %/=', if(id = 1, null, concat('v', id)))",
    "w": "if(id = 2, null, cast(concat('w', id) as binary))", "c": "cast(if(id = 1, null, 'c') as char(3))",
}  # fmt: skip


def _partitioned(spark: SparkSession, path: str) -> None:
    made = spark.range(4).selectExpr("id", *(f"{value} as p{name}" for name, value in _PARTITIONS.items()))
    made.write.format("delta").partitionBy(*(f"p{name}" for name in _PARTITIONS)).save(path)


def _tracked(spark: SparkSession, path: str) -> None:
    """Row ids that a compaction and an update have kept, and vectors."""
    table, properties = f"delta.`{path}`", {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    spark.range(0, 30, 1, 3).selectExpr("id", "id % 3 as k").write.format("delta").options(**properties).save(path)
    spark.sql(f"optimize {table}")
    spark.sql(f"update {table} set k = 9 where id % 10 = 4")
    spark.sql(f"insert into {table} select id, 5 from range(30, 40)")
    spark.sql(f"delete from {table} where id in (2, 35)")


def _texts(spark: SparkSession, path: str) -> None:
    spark.sql(f"create table delta.`{path}` (id bigint, c char(4), v varchar(4), a array<char(2)>) using delta")
    values = (
        "(1, 'a', 'a', array('b')), (2, 'ab  ', 'ab  ', null), (3, null, null, array(null)), (4, 'é', 'é', array('é'))"
    )
    spark.sql(f"insert into delta.`{path}` values {values}")
    add = adds_of(tahoe.Table(path).snapshot())[0]
    other = pa.table({"id": [9], "c": ["a"], "v": ["a "], "a": [["b"]]})  # another writer's, who does not pad
    pq.write_table(other, Path(path, "other.parquet"))
    commit(path, add.replace(path="other.parquet", size_bytes=Path(path, "other.parquet").stat().st_size, stats=None))


def _variants(spark: SparkSession, path: str) -> None:
    spark.sql(f"create table delta.`{path}` (id bigint, v variant) using delta")
    spark.sql(
        f"""insert into delta.`{path}` select id, parse_json(concat('{{"a": ', id, ', "b": [1, null]}}')) from range(9)"""
    )


def _nested(spark: SparkSession, path: str) -> None:
    made = (
        "if(id % " "4 = 0, " "null, " "named_struct('a', " "id, " "'b', " "if(id % " "3 = 0, " "null, " "named_struct('c', " "id, " "'d', " "array(id))))) " "as st",
        "if(id % 5 = 0, null, array(array(id, null), array(), null)) as aa", "map(id, map('k', id, 'n', null)) as mm",
        "array(named_struct('e', map(id, array(id)))) as am", "map(cast('k' as binary), named_struct('f', double('NaN'))) as mb",
        "array(named_struct('x', 1, 'y', named_struct('z', id)), null) as sa",
    )  # fmt: skip
    spark.range(0, 30, 1, 3).selectExpr("id", *made).write.format("delta").save(path)
    mark(path, {1: [0, 3]})


_TIMES = [
    dt.datetime(2024, 3, 31, 1, 30, 0, 123456),
    dt.datetime(1999, 12, 31, 23, 59, 59, 999999),
    None,
    dt.datetime(2262, 1, 1),
]


def _int96(spark: SparkSession, path: str) -> None:
    _converted(
        spark,
        path,
        pa.table({"id": range(4), "t": pa.array(_TIMES, pa.timestamp("us"))}),
        use_deprecated_int96_timestamps=True,
    )


def _millis(spark: SparkSession, path: str) -> None:
    times = {"t": pa.array(_TIMES, pa.timestamp("us", "UTC")), "n": pa.array(_TIMES, pa.timestamp("us"))}
    _converted(
        spark, path, pa.table({"id": range(4), **times}), coerce_timestamps="ms", allow_truncated_timestamps=True
    )


def _sparks_int96(spark: SparkSession, path: str) -> None:
    Path(path).mkdir(parents=True)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        times = (
            "case id when 0 then timestamp'1800-01-01 00:00:00' when 1 then timestamp'0001-01-01' else "
            "timestamp'9999-12-31' end as t"
        )
        spark.range(3).selectExpr("id", times).write.mode("overwrite").parquet(path)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")


def _unsigned(spark: SparkSession, path: str) -> None:
    kinds = {
        "a": (pa.uint8(), 255),
        "b": (pa.uint16(), 65535),
        "c": (pa.uint32(), 4294967295),
        "d": (pa.int8(), -128),
        "e": (pa.int16(), -32768),
    }
    _converted(
        spark,
        path,
        pa.table({"id": range(3), **{name: pa.array([0, most, None], kind) for name, (kind, most) in kinds.items()}}),
    )


def _decimals(spark: SparkSession, path: str) -> None:
    values = [decimal.Decimal("-1.25"), None, decimal.Decimal("99999.99")]
    for number, is_integer in enumerate((True, False)):
        made = {f"d{precision}": pa.array(values, pa.decimal128(precision, 2)) for precision in (7, 9, 10, 18, 19, 38)}
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"id": range(3), **made}), folder / f"{number}.parquet", store_decimal_as_integer=is_integer
        )
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")


def _encodings(spark: SparkSession, path: str) -> None:
    Path(path).mkdir(parents=True)
    made = pa.table(
        {
            "id": range(500),
            "s": [f"s{n % 7}" for n in range(500)],
            "f": [NAN if n % 9 == 0 else n / 8 for n in range(500)],
        }
    )
    ways: list[dict[str, Any]] = [
        {"compression": "zstd", "data_page_version": "2.0"}, {"compression": "gzip", "row_group_size": 64}, {"compression": "none"},
        {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "f": "PLAIN"}},
        {"use_dictionary": False, "column_encoding": {"id": "PLAIN", "s": "DELTA_LENGTH_BYTE_ARRAY", "f": "PLAIN"}, "compression": "lz4"},
        {"write_page_index": True, "data_page_size": 256, "row_group_size": 100}, {"write_statistics": False}, {"version": "1.0"},
    ]  # fmt: skip
    for number, way in enumerate(ways):
        pq.write_table(made, Path(path, f"{number}.parquet"), **way)
    pq.write_table(made.slice(0, 0), Path(path, "empty.parquet"))
    spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
    mark(path, {1: [0, 63, 64, 499], 5: range(90, 110)})


def _other_order(spark: SparkSession, path: str) -> None:
    _converted(
        spark,
        path,
        pa.table({"b": ["x", "y"], "id": [1, 2], "a": [1.5, NAN]}),
        pa.table({"a": [3.5], "more": [1], "id": [3], "b": ["z"]}),
    )


def _lists(spark: SparkSession, path: str) -> None:
    made = pa.table(
        {"id": [1, 2], "l": [[1, None], []], "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))}
    )
    _converted(spark, path, made, use_compliant_nested_type=False)


def _strings(spark: SparkSession, path: str) -> None:
    texts = pa.array(["a", None, "é"], pa.large_string())
    kinds = {"d": texts.dictionary_encode(), "l": texts, "b": pa.array([b"a", None, b"\xff"], pa.large_binary())}
    _converted(
        spark, path, pa.table({"id": range(3), **kinds, "f": pa.array([b"ab", None, b"\x00\xff"], pa.binary(2))})
    )


def _other_case(spark: SparkSession, path: str) -> None:
    """A table whose names have another case than those in its files, also inside of a struct."""
    made = pa.table({"ID": [1, 2, 3], "F": [NAN, 1.0, 5.0], "St": [{"X": 1, "y": "a"}, None, {"X": 3, "y": "b"}]})
    _converted(spark, path, made)
    metadata = tahoe.Table(path).snapshot().metadata
    text = (
        metadata.schema_string.replace('"ID"', '"id"')
        .replace('"F"', '"f"')
        .replace('"St"', '"st"')
        .replace('"X"', '"x"')
    )
    commit(path, metadata.replace(schema_string=text))


def _names(spark: SparkSession, path: str) -> None:
    odd = ["a.b", "tick`s", "é 🎈", "select", "x=y", "#", "a\tb", "_metadata2", "*", "1", "A.B "]
    made = spark.range(10).selectExpr("id", *(f"id + {n} as `{name.replace('`', '``')}`" for n, name in enumerate(odd)))
    made.write.format("delta").option("delta.columnMapping.mode", "name").save(path)


_ALL = "select * from t"
KINDS = {
    "widened types": Kind(
        _widened,
        [
            _ALL,
            "select id from t where b = 5",
            "select id from t where i > 20 and f > 3",
            "select sum(b), sum(d), max(e), min(y), sum(n) from t",
            "select id from t where d = 5 or e = 1.25 or y = 7",
            "select id from t where day > timestamp_ntz'2024-01-20 00:00:00'",
            "select id, st.x, st.l[0], m from t where st.x > 10",
            "select x.id from t x join t y on x.n = y.n and x.b = y.s",
        ],
    ),
    "columns that files lack": Kind(
        _lacking,
        [
            _ALL,
            "select id from t where n is null",
            "select id, st.y, l[0].z from t",
            "select id from t where n > 30 or s = 's'",
            "select s, count(m), max(n) from t group by s",
            "select st.y from t where st.y is not null",
        ],
    ),
    "values of existing rows": Kind(
        _existing,
        [
            _ALL,
            "select id from t where n = 7",
            "select s, sum(n) from t group by s",
            "select n from t",
            "select id from t where s <> 'seven' or n is null",
        ],
    ),
    "constants of partitions": Kind(
        _partitioned,
        [
            _ALL,
            *(f"select id, p{name} from t where p{name} = (select max(p{name}) from t)" for name in _PARTITIONS),
            "select pf, pg, count(*) from t group by pf, pg",
            "select id from t where pv is null or pw = cast('w1' as binary)",
            "select pt, pu, pd from t where pe > 0.5",
        ],
        is_native=False,
    ),
    "row ids": Kind(
        _tracked,
        [
            "select id, _metadata.row_id, _metadata.row_commit_version from t",
            "select id from t where _metadata.row_id > 10",
            "select count(distinct _metadata.row_id), sum(k) from t",
            "select k, max(_metadata.row_id) from t group by k",
        ],
    ),
    "char and varchar": Kind(
        _texts,
        [
            _ALL,
            "select id from t where c = 'a'",
            "select id from t where c in ('ab', 'a ')",
            "select id, length(c), length(v), c || '|' from t",
            "select id from t where v = 'a'",
            "select c, count(*) from t group by c",
            "select x.id, y.id from t x join t y on x.c = y.v",
            "select id from t where c like 'a%' order by c",
        ],
    ),
    "variant": Kind(
        _variants,
        [
            "select id, to_json(v), v:a::int from t",
            "select sum(v:a::int) from t where id > 3",
            "select schema_of_variant_agg(v) from t",
            "select count(*), max(id) from t where id > 2",
        ],
        is_native=False,
    ),
    "nested types and maps": Kind(
        _nested,
        [
            _ALL,
            "select id, st.b.c, st.b.d[0] from t where st.a > 10",
            "select id from t where st.b is null",
            "select id, aa[0][0], mm[id]['k'], am[0].e, mb from t",
            "select id, sa.x, sa[0].y.z, sa[1] from t",
            "select st.b, count(*) from t group by st.b",
            "select st is null, st.b is null, count(*) from t group by all",
            "select max(st), min(aa) from t",
        ],
    ),
    "INT96": Kind(
        _int96,
        [_ALL, "select id from t where t > timestamp'2000-01-01 00:00:00'", "select max(t), min(t) from t"],
        is_native=False,
    ),
    "INT96 of Spark, and early times": Kind(
        _sparks_int96,
        ["select id, string(t) from t", "select id from t where t < timestamp'1900-01-01 00:00:00'"],
        is_native=False,
    ),
    "times in milliseconds": Kind(
        _millis,
        [
            _ALL,
            "select id from t where t > timestamp'2000-01-01 00:00:00'",
            "select max(t), min(n) from t where id >= 0",
        ],
        is_native=False,
    ),
    "unsigned and small integers": Kind(
        _unsigned,
        [
            _ALL,
            "select sum(a), sum(b), sum(c), min(d), min(e) from t where id >= 0",
            "select id from t where a > 200 or c > 4000000000 or b = 65535",
        ],
        is_native=False,
    ),
    "decimals as integers and as bytes": Kind(
        _decimals,
        [
            _ALL,
            "select sum(d7), sum(d9), sum(d10), sum(d18), max(d38) from t where id >= 0",
            "select id from t where d9 = 99999.99 and d19 > 0 and d38 < 100000",
        ],
    ),
    "encodings, codecs, pages and row groups": Kind(
        _encodings,
        [
            "select id, s, f from t",
            "select count(*), sum(id), min(s), max(f) from t where id >= 0",
            "select id from t where id between 98 and 120",
            "select s, count(*) from t where f > 60 group by s",
            "select id from t where s = 's3' and f is not null",
        ],
    ),
    "columns in another order, and more of them": Kind(
        _other_order, [_ALL, "select b from t where a > 2", "select max(a), count(b) from t where id > 0"]
    ),
    "lists of other writers": Kind(
        _lists, [_ALL, "select id, get(l, 0), m['k'] from t", "select id, explode(l) from t"]
    ),
    "large and dictionary texts, fixed bytes": Kind(
        _strings,
        [_ALL, "select d, count(*) from t group by d", "select id from t where l = 'é' or b = X'ff' or f = X'6162'"],
    ),
    "names in another case": Kind(
        _other_case,
        [
            _ALL,
            "select id from t where f > 2",
            "select ID, ST.x from t where St.X > 1",
            "select max(f), count(st) from t where id > 0",
        ],
    ),
    "odd names": Kind(
        _names,
        [
            _ALL,
            "select `a.b`, `tick``s`, `é 🎈` from t where `x=y` > 6",
            "select `select`, sum(`*`) from t where `A.B ` > 3 group by 1",
            "select max(`#`), max(`1`), max(`a\tb`) from t where id > 0",
        ],
    ),
    "`_metadata`": Kind(
        _encodings,
        [
            "select id, _metadata.* from t where id < 3",
            "select _metadata.file_path, _metadata.file_size, _metadata.file_block_length, count(*) from t group "
            "by all",
            "select id from t where _metadata.row_index > 490",
            "select max(_metadata.row_index) from t group by _metadata.file_name",
            "select id from t where _metadata.file_name = '3.parquet' and id > 480",
        ],
        is_native=False,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_read_as_spark_reads_them(spark: SparkSession, path: str, table_name: str, kind: str) -> None:
    """Rows are lost or other, or a kind that ran natively is left to Spark's reader."""
    KINDS[kind].make(spark, path)
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{path}'")
    queries = [
        query.replace("from t", f"from {table_name}").replace("join t", f"join {table_name}")
        for query in KINDS[kind].queries
    ]
    assert [query for query in queries if rows(spark.sql(query)) != as_spark(spark, query)] == [], (
        "other rows than Spark's"
    )
    if KINDS[kind].is_native:
        assert [query for query in queries if not reads_natively(spark.sql(query))] == [], "read by Spark"
