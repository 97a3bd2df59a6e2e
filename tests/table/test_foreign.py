"""delta-rs reads what we write, and we read what it writes: rows and types."""

from __future__ import annotations

import time
from decimal import Context, Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import tahoe
from tahoe.table.verify.check import Kind, check_table
from tests.table.builders import EVERY_TYPE, ROWS


def by_delta_rs(path: str) -> pa.Table:
    """Through its query engine, which is the reader that knows column mapping."""
    found = pa.table(QueryBuilder().register("t", DeltaTable(path)).execute("select * from t").read_all())
    return found.cast(pa.schema([pa.field(f.name, _plain(f.type)) for f in found.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Views and large texts are the same to a user."""
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    return kind


def same(found: pa.Table, expected: pa.Table) -> None:
    assert sorted(found.column_names) == sorted(expected.column_names)
    found = found.select(expected.column_names)
    assert {f.name: str(_plain(f.type)) for f in found.schema} == {f.name: str(_plain(f.type)) for f in expected.schema}
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def test_delta_rs_reads_every_type(tmp_path):
    tahoe.Table(str(tmp_path)).append(EVERY_TYPE)
    same(by_delta_rs(str(tmp_path)), EVERY_TYPE)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_delta_rs_reads_mapped_columns(tmp_path, mode):
    tahoe.Table(str(tmp_path)).append(ROWS, partition_by=["p"], properties={"delta.columnMapping.mode": mode})
    same(by_delta_rs(str(tmp_path)), ROWS)


TYPES = ["s", "l", "i", "h", "b", "d", "dec", "bool", "day", "ts", "ntz"]
PARTITIONS = {column: EVERY_TYPE.column(column) for column in TYPES} | {
    value: [value] for value in ("a/b", "x=y", "50%", "a b", "ü", "#?", "a:b")
}


@pytest.mark.parametrize("values", PARTITIONS.values(), ids=PARTITIONS)
def test_delta_rs_finds_files_of_any_partition(tmp_path, values):
    data = pa.table({"p": values, "v": range(len(values))})
    tahoe.Table(str(tmp_path)).append(data, partition_by=["p"])
    same(by_delta_rs(str(tmp_path)), data)


@pytest.mark.parametrize("value", ["ü", "日本", "😀 ü/%C3%BC"])
def test_a_file_that_delta_rs_removes_is_gone_whatever_its_partition(tmp_path, value):
    """It escapes the letters of a path in its removes only, and compares them as texts: deleted rows stayed, in its
    checkpoints too.
    """
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"ä": [value, "a"], "v": [1, 2]}), partition_by=["ä"])
    theirs = DeltaTable(str(tmp_path))
    theirs.delete("v = 1")
    theirs.create_checkpoint()
    assert table.to_arrow()["v"].to_pylist() == by_delta_rs(str(tmp_path))["v"].to_pylist() == [2]


def test_delta_rs_skips_by_our_statistics(tmp_path):
    table = tahoe.Table(str(tmp_path))
    for start in (0, 10, 20):
        table.append(pa.table({"id": range(start, start + 10), "s": [f"x{i}" for i in range(start, start + 10)]}))
    actions = pa.table(DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).to_pylist()
    bounds = [(a["num_records"], a["min.id"], a["max.id"], a["null_count.id"]) for a in actions]
    assert sorted(bounds) == [(10, 0, 9, 0), (10, 10, 19, 0), (10, 20, 29, 0)]


def test_we_read_what_delta_rs_writes(tmp_path):
    path = str(tmp_path)
    write_deltalake(path, EVERY_TYPE)
    write_deltalake(path, EVERY_TYPE, mode="append")
    same(tahoe.Table(path).to_arrow(), pa.concat_tables([EVERY_TYPE, EVERY_TYPE]))


def test_we_read_delta_rs_partitions_updates_and_checkpoints(tmp_path):
    path = str(tmp_path)
    write_deltalake(path, ROWS, partition_by=["p"])
    theirs = DeltaTable(path)
    theirs.update({"v": "v * 10"}, predicate="id = 1")
    theirs.delete("id = 2")
    theirs.create_checkpoint()
    write_deltalake(path, ROWS.slice(0, 1), mode="append")
    found = tahoe.Table(path).to_arrow()
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, by_delta_rs(path).to_pylist()))
    assert found.num_rows == 4


@pytest.mark.parametrize("value", ["12345678901234567890.01", "-12345678901234567890.02", "99999999.123456789012"])
def test_decimals_that_delta_rs_rounds_in_statistics_are_found(tmp_path, value):
    write_deltalake(str(tmp_path), pa.table({"x": pa.array([Decimal(value)], pa.decimal128(38, 12))}))
    table = tahoe.Table(str(tmp_path))
    below, above = (
        f"{Context(prec=38).add(Decimal(value), Decimal(step)):f}" for step in ("-0.000000000001", "0.000000000001")
    )
    for condition in (
        f"x = {value}",
        f"x <> {below}",
        f"x <= {value}",
        f"x < {above}",
        f"x >= {value}",
        f"x > {below}",
        f"x IN ({value}, 1)",
    ):
        assert table.count(condition) == 1, condition
    assert (
        table.scan(f"x > {abs(Decimal(value)) * 2}").kept_files
        == table.scan(f"x < {-abs(Decimal(value)) * 2}").kept_files
        == 0
    )


def test_rows_that_delta_rs_has_deleted_stay_so_when_it_compacts_the_log(tmp_path):
    """It leaves expired tombstones out, although the checkpoint before has the files."""
    path = str(tmp_path)
    write_deltalake(path, ROWS, configuration={"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    DeltaTable(path).create_checkpoint()
    DeltaTable(path).delete()
    write_deltalake(path, ROWS, mode="append")
    time.sleep(0.01)  # now the tombstone has expired
    DeltaTable(path).compact_logs(1, 2)
    same(tahoe.Table(path).to_arrow(), ROWS)
    assert [finding.kind for finding in check_table(tahoe.Table(path).log)] == [Kind.WRONG_COMPACTED_LOG]


def test_both_write_to_one_table_in_turn(tmp_path):
    path = str(tmp_path)
    ours = tahoe.Table(path)
    for _ in range(3):
        ours.append(ROWS)
        write_deltalake(path, ROWS, mode="append")
    assert ours.version == 5
    assert ours.to_arrow().num_rows == by_delta_rs(path).num_rows == 24
    assert [c["version"] for c in ours.history()] == [5, 4, 3, 2, 1, 0]


WITH_VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize("rows", [100, 200_000], ids=["in the log", "in a file"])
def test_delta_rs_reads_deletion_vectors(tmp_path, rows):
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": list(range(rows))}), properties=WITH_VECTORS)
    gone = list(range(0, rows, 7))
    (path,) = table.files().column("path").to_pylist()
    for some in (gone[::2], gone[1::2]):
        with table.transaction() as changes:
            changes.mark_deleted(path, some)
    (add,) = table.snapshot().live.adds()
    assert add.deletion_vector.storage_type == ("i" if rows == 100 else "u")
    same(by_delta_rs(str(tmp_path)), pa.table({"id": [i for i in range(rows) if i % 7]}))


def test_delta_rs_keeps_to_a_constraint_of_ours(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": [1, 2]}))
    with table.transaction() as changes:
        changes.add_constraint("positive", "id > 0")
    with pytest.raises(Exception, match="1 rows failed validation check"):
        write_deltalake(str(tmp_path), pa.table({"id": [-1]}), mode="append")
    write_deltalake(str(tmp_path), pa.table({"id": [3]}), mode="append")
    assert table.to_arrow().num_rows == 3


def test_delta_rs_sees_domains_and_applications(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": [1, 2]}))
    with table.transaction(txn=("app", 7)) as changes:
        changes.append(pa.table({"id": [3]}))
        changes.delete("id = 1")
        changes.set_domain("mine", "text")
    assert DeltaTable(str(tmp_path)).transaction_version("app") == 7
    same(by_delta_rs(str(tmp_path)), pa.table({"id": [2, 3]}))
