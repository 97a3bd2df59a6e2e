"""DELETE, UPDATE and MERGE of both on the same tables: each goes on from what the other left, and readers of all kinds
see the same.

What is right is what the model of tests/dml says. Arguments that are wrong are refused in the reference's words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tests.dml.calls import Call, complaint, make
from tests.dml.engines import OfReference, Tahoe
from tests.dml.generator import Generator
from tests.dml.model import Statement, counted
from tests.dml.runner import FEED, MAPPED, MODES, ROW_TRACKING, VECTORS, Answer, Engine, Life, make_table
from tests.interop.reference import Reference
from tests.interop.rows import assert_same, spark_rows
from tests.interop.tables import TABLES

STATEMENTS = 6


class InTurn:
    """Several engines, a statement each. The change feed is read by the one that did not make it."""

    refuses_idle_matches = True

    def __init__(self, *engines: Engine) -> None:
        self.engines = list(engines)

    def run(self, path: str, call: Call, statement: Statement) -> Answer:
        self.engines.append(self.engines.pop(0))
        return self.engines[-1].run(path, call, statement)

    def changes(self, path: str, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        return self.engines[0].changes(path, first, last, columns)


@pytest.mark.parametrize("mode", MODES)
def test_in_turn(mode: str, spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    """One of the two cannot go on from the vectors, the copies, the feed or the row ids of the other."""
    life = Life(InTurn(Tahoe(spark), OfReference(reference)), tmp_path, mode, seed=2000)
    assert life.live(STATEMENTS) == STATEMENTS
    assert_same(reference.read(life.path), life.table.to_arrow())


# --- what we have done, read by others


@pytest.fixture(scope="module")
def changed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Life]:
    """Tables on which we have run statements, made when they are first asked for."""

    class Lives(dict[str, Life]):
        def __missing__(self, mode: str) -> Life:
            life = Life(Tahoe(spark), tmp_path_factory.mktemp("changed"), mode, seed=3000)
            life.live(STATEMENTS)
            self[mode] = life
            return life

    return Lives()


@pytest.mark.parametrize("mode", MODES)
def test_the_reference_reads_every_version(mode: str, changed: dict[str, Life], reference: Reference) -> None:
    """The reference sees other rows than we do after a DELETE, an UPDATE or a MERGE of ours."""
    life = changed[mode]
    for version in life.versions:
        ours = life.table.snapshot(version).to_arrow()
        found = reference.read(life.path, versionAsOf=str(version))
        assert_same(found, ours)
        assert counted(found.to_pylist(), life.schema[: found.num_columns]) == counted(
            [row.values for row in life.versions[version]], life.schema[: found.num_columns]
        )


@pytest.mark.parametrize("mode", [mode for mode, kind in MODES.items() if not kind.has(MAPPED)])
def test_delta_rs_reads_it(mode: str, changed: dict[str, Life]) -> None:
    """delta-rs sees other rows than we do. It does not read tables with column mapping."""
    life = changed[mode]
    assert_same(by_delta_rs(life.path), life.table.to_arrow())


def by_delta_rs(path: str) -> pa.Table:
    return pa.table(
        deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute("SELECT * FROM t").read_all()
    )


@pytest.mark.parametrize("mode", [mode for mode, kind in MODES.items() if kind.has(FEED)])
def test_the_reference_reads_our_change_feed(mode: str, changed: dict[str, Life], reference: Reference) -> None:
    """A change is missing from the feed, doubled, or told as another kind of change."""
    life = changed[mode]
    first = min(life.versions) + 1
    if life.table.version < first:
        pytest.fail("the seed makes no change: choose another")
    names = [*(column.name for column in life.schema), "_change_type", "_commit_version"]
    options = {"readChangeFeed": "true", "startingVersion": str(first)}
    ours = life.table.changes(start_version=first)
    assert_same(reference.read(life.path, columns=names, **options), ours.select(names))


@pytest.mark.parametrize("mode", [mode for mode, kind in MODES.items() if kind.has(ROW_TRACKING)])
def test_the_reference_reads_our_row_ids(mode: str, changed: dict[str, Life], reference: Reference) -> None:
    """A row's id or the version of its last change is another for the reference."""
    life = changed[mode]
    fields = ["_metadata.row_id", "_metadata.row_commit_version"]
    names = [column.name for column in life.schema]
    found = reference.read(life.path, columns=[*names, *fields])
    assert_same(found.rename_columns([*names, *fields]), life.table.to_arrow(columns=[*names, *fields]))


# --- tables that the reference has made

# Each has a first column with at least four values, by which rows are told apart.
CHANGED = [
    "plain",
    "all_types",
    "nested",
    "long_texts",
    "no_statistics",
    "random_prefixes",
    "partitioned",
    "partitioned_by_special_texts",
    "timestamps_as_int96",
    "checkpoint_in_parts",
    "cloned_from_another_folder",
    "converted_from_parquet",
    "deletion_vectors",
    "deletion_vectors_in_partitions",
    "deletion_vectors_purged",
    "deletion_vectors_on_nested_columns",
    "column_mapping_name",
    "column_mapping_id",
    "column_mapping_nested",
    "column_mapping_switched_on_later",
    "column_mapping_with_deletion_vectors",
    "variant",
    "change_data_feed_supported",
    "type_widening",
    "in_commit_timestamps",
    "row_tracking",
    "row_tracking_by_copying",
    "row_tracking_kept",
    "row_tracking_by_id",
    "row_tracking_switched_on_later",
    "clustered",
    "check_constraint",
    "materialized_partition_columns",
    "feature_dropped",
    "v2_checkpoint_json",
    "v2_checkpoint_parquet",
]


@pytest.mark.parametrize("name", CHANGED)
def test_tables_of_the_reference(name: str, spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    """The same commands leave other rows when we run them, or a table that the reference does not read."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        TABLES[name].make(reference, path)
    before = Counter(map(str, spark_rows(spark.read.format("delta").load(str(ours))).to_pylist()))
    for call in _calls(spark, ours):
        make(spark, DeltaTable, str(ours), call)
        reference.delta_table(theirs, call)
        assert_same(reference.read(ours), reference.read(theirs))
        assert_same(
            tahoe.Table(str(ours)).to_arrow() if name != "variant" else reference.read(ours), reference.read(theirs)
        )
    assert Counter(map(str, spark_rows(spark.read.format("delta").load(str(ours))).to_pylist())) != before


def _calls(spark: SparkSession, path: Path) -> list[Call]:
    """A DELETE, an UPDATE and a MERGE by the values of the first column that can be compared."""
    frame = spark.read.format("delta").load(str(path))
    field = next(
        f
        for f in frame.schema.fields
        if f.dataType.simpleString() in ("tinyint", "smallint", "int", "bigint", "string")
    )
    values = sorted({row[0] for row in frame.select(f"`{field.name}`").collect() if row[0] is not None})
    one, two, three, four, five = (_literal(value, field.dataType.simpleString()) for value in (values * 5)[:5])
    column, version = f"`{field.name}`", tahoe.Table(str(path)).version
    source = {"kind": "target", "path": "", "version": version}
    return [
        {"command": "update", "condition": f"{column} = {two}", "set": {column: three}},
        {"command": "delete", "condition": f"{column} = {one} OR {column} IS NULL"},
        {
            "command": "merge",
            "source": source,
            "condition": "false",  # the same value may be there several times
            "clauses": [
                ["whenNotMatchedInsertAll", {"condition": f"s.{column} = {three}"}],
                ["whenNotMatchedBySourceUpdate", {"condition": f"t.{column} = {five}", "set": {column: two}}],
                ["whenNotMatchedBySourceDelete", {"condition": f"t.{column} = {four}"}],
            ],
            "evolves": False,
        },
    ]


def _literal(value: Any, kind: str) -> str:
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {kind})"


def test_tables_of_delta_rs(spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    """Statements on files that another writer has made do something else."""
    path = str(tmp_path / "t")
    for ids in (range(10), range(10, 20)):
        rows = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"name {i}" for i in ids]})
        deltalake.write_deltalake(path, rows, mode="append", configuration={"delta.enableDeletionVectors": "true"})
    table = DeltaTable.forPath(spark, path)
    table.delete("id % 5 = 0")
    table.update("id = 7", {"name": "concat(name, '!')"})
    source = spark.sql("SELECT id, concat('merged ', id) AS name FROM range(18, 22)")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    names = {i: f"name {i}" for i in range(20) if i % 5} | {7: "name 7!"} | {i: f"merged {i}" for i in range(18, 22)}
    expected = pa.table({"id": pa.array(names, pa.int64()), "name": list(names.values())})
    assert_same(tahoe.Table(path).to_arrow(), expected)
    assert_same(reference.read(path), expected)
    assert_same(by_delta_rs(path), expected)


# --- arguments

WRONG_ARGUMENTS = [
    "table.delete(5)",
    "table.delete(['id = 1'])",
    "table.update('id = 1')",
    "table.update(None, None)",
    "table.update('id = 1', [('id', '2')])",
    "table.update('id = 1', {1: '2'})",
    "table.update('id = 1', {'id': 2})",
    "table.update('id = 1', {'id': None})",
    "table.update(5, {'id': '1'})",
    "table.merge(None, 'true')",
    "table.merge('source', 'true')",
    "table.merge(source, None)",
    "table.merge(source, 5)",
    "table.merge(source, 'false').whenMatchedUpdate()",
    "table.merge(source, 'false').whenMatchedUpdate('true')",
    "table.merge(source, 'false').whenMatchedUpdate(set=5)",
    "table.merge(source, 'false').whenMatchedUpdate(set={'id': 5})",
    "table.merge(source, 'false').whenMatchedUpdate(set={5: 'id'})",
    "table.merge(source, 'false').whenMatchedUpdate(5, {'id': '1'})",
    "table.merge(source, 'false').whenMatchedUpdateAll(5)",
    "table.merge(source, 'false').whenMatchedDelete(5)",
    "table.merge(source, 'false').whenNotMatchedInsert()",
    "table.merge(source, 'false').whenNotMatchedInsert(values=5)",
    "table.merge(source, 'false').whenNotMatchedInsert(values={'id': 5})",
    "table.merge(source, 'false').whenNotMatchedInsert(5, {'id': '1'})",
    "table.merge(source, 'false').whenNotMatchedInsertAll(5)",
    "table.merge(source, 'false').whenNotMatchedBySourceUpdate()",
    "table.merge(source, 'false').whenNotMatchedBySourceUpdate(set=5)",
    "table.merge(source, 'false').whenNotMatchedBySourceUpdate(5, {'id': '1'})",
    "table.merge(source, 'false').whenNotMatchedBySourceDelete(5)",
]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("arguments") / "t")
    tahoe.Table(path).append(pa.table({"id": pa.array([1, 2], pa.int64()), "Name": ["a", "b"]}))
    return path


@pytest.mark.parametrize("code", WRONG_ARGUMENTS)
def test_wrong_arguments(code: str, numbers: str, spark: SparkSession, reference: Reference) -> None:
    """What the reference refuses before any work is done, or the words in which it does, are others."""
    theirs = reference.complaint(numbers, code)
    assert theirs is not None
    assert theirs[0] in ("TypeError", "ValueError")
    assert complaint(spark, DeltaTable, numbers, code) == theirs


# Statements that cannot mean anything. The reference's class of error is ours too; the words are not.
NONSENSE = [
    "table.delete('nme = 1')",
    "table.delete('id +')",
    "table.delete('id')",
    "table.delete('max(id) > 1')",
    "table.update('id = 1', {'nme': '1'})",
    "table.update('id = 1', {'id': 'nme'})",
    "table.update('id = 1', {'id': \"'x'\", 'ID': '1'})",
    "table.update('id = 1', {'id': 'array(1)'})",
    "table.update('id = 1', {'id': 'max(id)'})",
    "table.merge(source, 'id = 1').whenMatchedDelete().execute()",
    "table.alias('t').merge(source.alias('s'), 't.nme = s.id').whenMatchedDelete().execute()",
    "table.alias('t').merge(source.alias('s'), 't.id = s.id').execute()",
    "table.alias('t').merge(source.alias('s'), 't.id = s.id').whenMatchedDelete().whenMatchedDelete('true').execute()",
    "table.alias('t').merge(source.alias('s'), 't.id = s.id').whenMatchedUpdate(set={'nme': '1'}).execute()",
    "table.alias('t').merge(source.alias('s'), 't.id = s.id').whenNotMatchedInsert(values={'id': 't.id'}).execute()",
    "table.alias('t').merge(source.alias('s'), 't.id = s.id').whenNotMatchedBySourceUpdate(set={'id': "
    "'s.id'}).execute()",
    "table.alias('t').merge(source.alias('s'), 't.id = s.id').whenMatchedUpdateAll().execute()",
    "table.alias('t').merge(source.alias('s'), 't.id = s.id').whenNotMatchedInsertAll().execute()",
]


@pytest.mark.parametrize("code", NONSENSE)
def test_nonsense(code: str, numbers: str, spark: SparkSession, reference: Reference) -> None:
    """A statement that the reference refuses is run, or fails as if something were broken."""
    theirs, before = reference.complaint(numbers, code), tahoe.Table(numbers).version
    assert theirs is not None
    ours = complaint(spark, DeltaTable, numbers, code)
    assert ours is not None
    assert "Py4J" not in ours[0]
    assert tahoe.Table(numbers).version == before


def test_tables_of_the_generator_are_the_references_too(reference: Reference, tmp_path: Path) -> None:
    """The tables of the model's lives are not what they are taken for, and all that is built on them shows nothing."""
    shape = Generator("shape").shape(partitioned=True)
    path = tmp_path / "t"
    make_table(str(path), shape, VECTORS)
    found = reference.read(path)
    assert counted(found.to_pylist(), shape.schema) == counted(
        [values for rows in shape.files for values in rows], shape.schema
    )
