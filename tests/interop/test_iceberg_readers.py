"""DuckDB, ClickHouse and Spark with Iceberg's runtime read the Iceberg metadata of tables: the same rows at the same versions as
tahoe. PyIceberg is in tests/iceberg.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tahoe
from tahoe.storage.background import finish_background
from tests.catalog.commands import fine, serving
from tests.iceberg.tables import LINEAGE, MARKED, TABLES, UNIFORM, geometries, iceberg, variants, with_lineage
from tests.table.geometries import point

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-iceberg" / "bin" / "python"
SPARK, JARS = ROOT / ".venv-4.1" / "bin" / "python", ROOT / ".cache" / "iceberg-jars"


@pytest.fixture(autouse=True)
def installed() -> None:
    if not all((folder / "installed").exists() for folder in (PYTHON.parents[1], SPARK.parents[1], JARS)):
        tell = pytest.fail if os.environ.get("TAHOE_REFERENCE") == "required" else pytest.skip
        tell("NOT RUN: readers of Iceberg are not installed: make interop")


def duckdb_reads(*statements: str) -> list[tuple[list[str], list[tuple[Any, ...]]]]:
    command = [str(PYTHON), str(Path(__file__).with_name("iceberg_duckdb.py")), *statements]
    done = subprocess.run(command, capture_output=True, timeout=120, env={"HOME": os.environ["HOME"]})
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def spark_reads(requests: Sequence[Mapping[str, object]], **settings: str) -> list[list[dict[str, Any]]]:
    command = [str(SPARK), str(Path(__file__).with_name("iceberg_spark.py")), str(JARS)]
    command += [f"{name}={value}" for name, value in settings.items()]
    lines = "\n".join(map(json.dumps, requests)).encode()
    env = {**os.environ, "PYSPARK_PYTHON": str(SPARK)}
    env.pop("PYTHONPATH", None)
    done = subprocess.run(command, input=lines, capture_output=True, timeout=400, env=env)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return pickle.loads(done.stdout)


def plain(value: Any) -> Any:
    """A value as both sides have it: maps as pairs, moments without the zone's class."""
    match value:
        case dict():
            return sorted((key, plain(inner)) for key, inner in value.items())
        case list() | tuple():
            pairs = bool(value) and all(isinstance(entry, tuple) for entry in value)
            if pairs:
                return sorted((key, plain(inner)) for key, inner in value)
            return [plain(entry) for entry in value]
        case datetime():
            return value.isoformat()
        case _:
            return value


def listed(names: list[str], rows: list[tuple[Any, ...]], order: list[str]) -> list[str]:
    places = [names.index(name) for name in order]
    return sorted(repr([plain(row[place]) for place in places]) for row in rows)


def rows_of(table: pa.Table, order: list[str]) -> list[str]:
    return sorted(repr([plain(row[name]) for name in order]) for row in table.to_pylist())


@pytest.mark.parametrize("name", TABLES)
def test_duckdb_reads_the_same_rows_at_each_version(name: str, tmp_path: Path) -> None:
    table = TABLES[name](str(tmp_path / "t"))
    found = iceberg(table)
    snapshots = found.metadata.snapshots
    place = found.metadata_location.replace("'", "''")
    statements = [f"SELECT * FROM iceberg_scan('{place}', snapshot_from_id => {s.snapshot_id})" for s in snapshots]
    newest, *earlier = duckdb_reads(f"SELECT * FROM iceberg_scan('{place}')", *statements)
    order = list(table.schema.names)
    assert listed(*newest, order) == rows_of(table.to_arrow(), order)
    for snapshot, read in zip(snapshots, earlier, strict=True):
        then = table.snapshot(version_of(snapshot))
        assert listed(*read, list(then.schema.names)) == rows_of(then.to_arrow(), list(then.schema.names))


def version_of(snapshot: Any) -> int:
    return int(snapshot.summary["delta-version"])


def clickhouse_reads(*statements: str) -> list[tuple[list[dict[str, Any]], int, int]]:
    """The rows, how many rows were read for them, and how many bytes."""
    command = [str(PYTHON), str(Path(__file__).with_name("iceberg_clickhouse.py")), *statements]
    done = subprocess.run(command, capture_output=True, timeout=120, cwd="/", env={"HOME": os.environ["HOME"]})
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def without_nulls(value: Any, kind: pa.DataType) -> Any:
    """A value as ClickHouse has it, which knows no null lists, maps and structs, and takes texts for bytes."""
    if pa.types.is_list(kind):
        return [without_nulls(entry, kind.value_type) for entry in value or []]
    if pa.types.is_map(kind):
        pairs = dict(value or []).items()
        return sorted((without_nulls(k, kind.key_type), without_nulls(v, kind.item_type)) for k, v in pairs)
    if pa.types.is_struct(kind):
        return [without_nulls((value or {}).get(part.name), part.type) for part in kind]
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value.encode() if isinstance(value, str) else value


def without_nulls_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> list[str]:
    return sorted(repr([without_nulls(row[part.name], part.type) for part in schema]) for row in rows)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in MARKED])
def test_clickhouse_reads_the_same_rows_at_each_version(name: str, tmp_path: Path) -> None:
    table = TABLES[name](str(tmp_path / "t"))
    source = f"SELECT * FROM icebergLocal('{table.url.removeprefix('file://')}')"
    versions = {s.snapshot_id: int(s.summary["delta-version"]) for s in iceberg(table).metadata.snapshots}
    older = [f"{source} SETTINGS iceberg_snapshot_id = {snapshot}" for snapshot in versions]
    (newest, *_), *earlier = clickhouse_reads(source, *older)
    rows = table.to_arrow()
    assert without_nulls_rows(newest, rows.schema) == without_nulls_rows(rows.to_pylist(), rows.schema)
    for (version, then), (read, *_) in zip(((v, table.snapshot(v)) for v in versions.values()), earlier, strict=True):
        rows = then.to_arrow()
        assert without_nulls_rows(read, rows.schema) == without_nulls_rows(rows.to_pylist(), rows.schema), version


def test_duckdb_and_clickhouse_refuse_variants(tmp_path: Path) -> None:
    table = variants(str(tmp_path / "t"))
    finish_background()
    with pytest.raises(AssertionError, match="VARIANT"):
        duckdb_reads(f"SELECT * FROM iceberg_scan('{tmp_path / 't'}')")
    with pytest.raises(AssertionError, match="variant"):
        clickhouse_reads(f"SELECT id FROM icebergLocal('{tmp_path / 't'}')")
    assert table.version == 2


def test_clickhouse_refuses_deletion_vectors(tmp_path: Path) -> None:
    """It does not show deleted rows."""
    iceberg(MARKED["marked"](str(tmp_path / "t")))
    with pytest.raises(AssertionError, match="Position deletes are supported only for parquet format"):
        clickhouse_reads(f"SELECT * FROM icebergLocal('{tmp_path / 't'}')")


def test_clickhouse_leaves_files_out_by_partitions_and_bounds(tmp_path: Path) -> None:
    """Told by what it has read: one file of ten."""
    table = tahoe.Table(str(tmp_path / "t"))
    for number in range(10):
        ids = range(number * 1000, number * 1000 + 1000)
        rows = {"id": ids, "p": [number % 2] * 1000, "text": [f"{id * 7919:040x}" for id in ids]}
        created = {"partition_by": ["p"], "properties": UNIFORM} if number == 0 else {}
        table.append(pa.table(rows), **created)
    iceberg(table)
    source = f"SELECT count() AS c, sum(length(text)) FROM icebergLocal('{tmp_path / 't'}')"
    (every, all_rows, all_bytes), (one, rows_read, bytes_read), (half, of_partition, _) = clickhouse_reads(
        source, f"{source} WHERE id BETWEEN 3100 AND 3200", f"{source} WHERE p = 1"
    )
    assert (every[0]["c"], one[0]["c"], half[0]["c"]) == (10_000, 101, 5000)
    assert (all_rows, of_partition) == (10_000, 5000)
    assert rows_read <= 1000
    assert bytes_read < all_bytes / 5


def test_spark_reads_the_same_rows_at_each_version(tmp_path: Path) -> None:
    """It finds the newest version by the folder, with the hint. In version 3 of the format rows have the ids and versions
    of row tracking.
    """
    made = {name: make(str(tmp_path / name.replace(" ", "_"))) for name, make in TABLES.items()}
    requests: list[dict[str, object]] = []
    expected: list[tuple[str, pa.Table]] = []
    for name, table in made.items():
        found, folder = iceberg(table), table.url.removeprefix("file://")
        is_tracked = found.metadata.format_version >= 3
        snapshots = [(None, table.version), *((s.snapshot_id, version_of(s)) for s in found.metadata.snapshots)]
        for number, version in snapshots:
            requests.append({"path": folder, "snapshot": number, "columns": ["*", *(LINEAGE if is_tracked else ())]})
            then = table.snapshot(version)
            expected.append((f"{name}, version {version}", with_lineage(then) if is_tracked else then.to_arrow()))
    variants(str(tmp_path / "v"))
    finish_background()
    texts = ["id", "to_json(v) v", "to_json(vs) vs", *LINEAGE]
    requests.append({"path": str(tmp_path / "v"), "snapshot": None, "columns": texts})
    values = [[0, 1], ['{"a":7}', None], ['[{"a":7}]', "[]"], [0, 1], [1, 1]]
    expected.append(("variants", pa.table(values, ["id", "v", "vs", *LINEAGE])))
    geometries(str(tmp_path / "g"))
    finish_background()
    texts = ["id", "st_asbinary(at) at", "m is null m", "areas is null a"]
    requests.append({"path": str(tmp_path / "g"), "snapshot": None, "columns": texts})
    values = [[1, 2], [point(1, 2), None], [True, True], [True, True]]
    expected.append(("geometries", pa.table(values, ["id", "at", "m", "a"])))
    least = [
        "max(moment) hi",
        "min(moment) low",
        "max(local) local",
        "max(id) id",
        "max(money) money",
        "min(half) half",
    ]
    requests.append({"path": str(tmp_path / "plain"), "snapshot": None, "columns": least})
    ends = made["plain"].to_arrow()
    values = [[getattr(pc, each[:3])(ends[each[4 : each.index(")")]]).as_py()] for each in least]
    expected.append(("aggregates", pa.table(values, [each.rpartition(" ")[2] for each in least])))
    read_rows = spark_reads(requests, **{"spark.sql.geospatial.enabled": "true"})
    for (where, rows), read in zip(expected, read_rows, strict=True):
        order = rows.column_names
        assert sorted(repr([plain(row[name]) for name in order]) for row in read) == rows_of(rows, order), where


def test_duckdb_finds_the_newest_version_by_the_hint_and_filters(tmp_path: Path) -> None:
    table = TABLES["partitioned"](str(tmp_path / "t"))
    iceberg(table)
    folder = table.url.removeprefix("file://")
    (_, [(count,)]), (_, [(one,)]) = duckdb_reads(
        f"SELECT count(*) FROM iceberg_scan('{folder}')",
        f"SELECT count(*) FROM iceberg_scan('{folder}') WHERE tiny = 2",
    )
    assert (count, one) == (table.to_arrow().num_rows, table.to_arrow(filter="tiny = 2").num_rows)


def test_nulls_among_structs_stay(tmp_path: Path) -> None:
    """PyIceberg reads a list of structs that is null as an empty one, and structs in lists of maps without values."""
    kind = pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.int64())])))
    rows = pa.table({"id": [1, 2], "points": [[{"x": 1}], None], "deep": pa.array([[("k", [{"a": 1}])], None], kind)})
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(rows, properties=UNIFORM)
    ((names, read),) = duckdb_reads(f"SELECT * FROM iceberg_scan('{iceberg(table).metadata_location}')")
    assert listed(names, read, names) == rows_of(table.to_arrow(), names)


@pytest.fixture
def served_orders(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a REST catalog with a table `shop.orders`, and a token."""
    url, root = f"sqlite:///{tmp_path}/lake.db", str(tmp_path / "lake")
    catalog = tahoe.Catalog(url, root=root)
    catalog.create_schema("shop")
    orders = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]), properties=UNIFORM)
    orders.append(pa.table({"id": [1, 2, 3]}))
    orders.delete("id = 2")
    token = fine("token", url, "ada").strip()
    fine("grant", url, "ada", "ADMIN")
    with serving(url, "--root", root) as (_, at):
        yield f"{at}/api/2.1/unity-catalog/iceberg", token


def test_duckdb_finds_tables_by_their_names(served_orders: tuple[str, str]) -> None:
    endpoint, token = served_orders
    secret = f"CREATE SECRET lake (TYPE iceberg, TOKEN '{token}')"
    attach = f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{endpoint}', SECRET lake)"
    _, _, (_, tables), (_, rows) = duckdb_reads(
        secret, attach, "SELECT table_name FROM duckdb_tables()", "SELECT id FROM lake.shop.orders ORDER BY id"
    )
    assert tables == [("orders",)]
    assert rows == [(1,), (3,)]


def test_spark_finds_tables_by_their_names(served_orders: tuple[str, str]) -> None:
    endpoint, token = served_orders
    settings = {"type": "rest", "uri": endpoint, "warehouse": "lake", "token": token}
    catalog = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
    tables, rows = spark_reads(
        [{"sql": "SHOW TABLES IN lake.shop"}, {"sql": "SELECT id FROM lake.shop.orders ORDER BY id"}],
        **catalog,
        **{f"spark.sql.catalog.lake.{name}": value for name, value in settings.items()},
    )
    assert [row["tableName"] for row in tables] == ["orders"]
    assert rows == [{"id": 1}, {"id": 3}]
