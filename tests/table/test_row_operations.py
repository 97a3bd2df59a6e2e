"""CREATE, overwrite, DELETE, UPDATE and MERGE of `tahoe.Table`: what the model of tests/dml does not know."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tahoe
from tahoe.errors import (
    AppendOnlyTableError,
    CheckConstraintViolatedError,
    ColumnNotFoundError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictingAssignmentsError,
    ExpressionFailedError,
    IdentityUpdateError,
    InvalidArgumentError,
    InvalidMergeError,
    InvalidOptionError,
    InvalidPredicateError,
    MetadataChangedException,
    MultipleSourceRowsError,
    NotNullViolationError,
    PartitionMismatchError,
    ReplaceWhereMismatchError,
    SchemaMismatchError,
    TableExistsError,
)
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, Field, Struct
from tahoe.table.verify.check import check_version
from tahoe.table.writing import arrow_writer
from tests.table.builders import memory_env

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def made(rows: pa.Table | None = None, **options: Any) -> tahoe.Table:
    table = tahoe.Table("/t", env=memory_env())
    table.append(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}) if rows is None else rows, **options)
    return table


def again(table: tahoe.Table) -> tahoe.Table:
    """The same table as another writer has it."""
    return tahoe.Table(table.url, env=table.env)


def content(table: tahoe.Table) -> dict[Any, Any]:
    assert list(check_version(table.snapshot())) == []
    return {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}


# --- CREATE


def test_a_table_is_made_as_its_schema_says() -> None:
    table = tahoe.Table("/t", env=memory_env())
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.date32())])
    assert table.create(schema, partition_by=["day"], properties=VECTORS, comment="events") == 0
    assert (table.schema.find("id").nullable, table.snapshot().partition_columns) == (False, ("day",))  # type: ignore[union-attr]
    assert table.snapshot().metadata.description == "events"
    assert table.history()[0]["operation"] == "CREATE TABLE"
    assert table.to_arrow().num_rows == table.count() == 0
    with pytest.raises(TableExistsError):
        table.create(schema)
    assert table.create(schema, if_not_exists=True) is None
    with pytest.raises(NotNullViolationError):
        table.append(pa.table({"id": pa.array([None], pa.int64())}))


# --- overwrite


def test_all_rows_are_replaced() -> None:
    table = made()
    table.overwrite(pa.table({"id": [9], "v": ["z"]}))
    assert content(table) == {9: "z"}
    table.overwrite(pa.table({"id": ["text"], "v": [1]}), overwrite_schema=True, partition_by=["v"])
    assert content(table) == {"text": 1}
    assert table.snapshot().partition_columns == ("v",)


def test_partitions_that_the_rows_have_are_replaced() -> None:
    table = made(partition_by=["v"])
    table.overwrite(pa.table({"id": [20, 21], "v": ["b", "b"]}), partitions="dynamic")
    assert sorted(content(table)) == [1, 3, 20, 21]
    with pytest.raises(InvalidArgumentError, match='"all" or "dynamic"'):
        table.overwrite(pa.table({"id": [1], "v": ["b"]}), partitions="some")  # type: ignore[arg-type]


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED, VECTORS | FEED])
@pytest.mark.parametrize("filter", ["id >= 2", [("id", ">=", 2)], pc.field("id") >= 2])
def test_rows_that_a_filter_chooses_are_replaced(properties: dict[str, str], filter: Any) -> None:
    table = made(properties=properties)
    assert table.overwrite(iter([pa.record_batch({"id": [5], "v": ["e"]})]), filter) == 1
    assert content(table) == {1: "a", 5: "e"}
    told = table.history()[0]
    assert (told["operation"], told["operationParameters"]["mode"]) == ("WRITE", "Overwrite")
    assert "id" in told["operationParameters"]["predicate"]
    with pytest.raises(ReplaceWhereMismatchError, match='"id":0'):
        table.overwrite(pa.table({"id": [5, 0], "v": ["x", "y"]}), filter)
    assert content(table) == {1: "a", 5: "e"}
    if FEED.items() <= properties.items():
        kinds = table.changes(start_version=1).group_by("_change_type").aggregate([("id", "count")]).to_pylist()
        assert {row["_change_type"]: row["id_count"] for row in kinds} == {"delete": 2, "insert": 1}


def test_a_filter_that_says_what_is_replaced_leaves_no_option_without_effect() -> None:
    rows = pa.table({"id": [5], "v": ["e"]})
    table = tahoe.Table("/t", env=memory_env())
    with pytest.raises(ReplaceWhereMismatchError):
        table.overwrite(rows, "id > 5")
    assert not table.exists()
    table.overwrite(rows, "id > 1", partition_by=["v"], properties=VECTORS)
    assert (table.snapshot().partition_columns, content(table)) == (("v",), {5: "e"})
    for error, options in (
        (InvalidOptionError, {"overwrite_schema": True}),
        (InvalidOptionError, {"partitions": "dynamic"}),
        (PartitionMismatchError, {"partition_by": ["id"]}),
    ):
        with pytest.raises(error):
            table.overwrite(rows, "id > 1", **options)  # type: ignore[arg-type]
    assert table.version == 0


# --- DELETE and UPDATE


def test_counts_and_versions() -> None:
    table = made(properties=VECTORS)
    assert (found := table.delete("id = 1")).deleted == 1
    assert (found.version, found.updated) == (1, 0)
    assert table.delete("id = 77").version is None
    assert table.update({"v": "upper(v)", "id": 50}, "id = 2").updated == 1
    assert content(table) == {50: "B", 3: "c"}
    assert table.history()[0]["operationParameters"] == {"predicate": '["id = 2"]'}
    assert table.delete().deleted == 2
    assert table.count() == 0
    assert [commit["operation"] for commit in table.history()] == ["DELETE", "UPDATE", "DELETE", "WRITE"]


def test_values_of_python_are_taken_as_they_are() -> None:
    table = made(pa.table({"id": [1], "v": ["a"], "day": [dt.date(2024, 1, 1)], "l": [[1]], "n": [{"x": 1}]}))
    table.update({"v": pa.scalar("not sql("), "day": dt.date(2025, 1, 1), "l": [4, 5], "n.x": None})
    assert table.to_arrow().to_pylist() == [
        {"id": 1, "v": "not sql(", "day": dt.date(2025, 1, 1), "l": [4, 5], "n": {"x": None}}
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"id": 1.5},
        {"id": True},
        {"id": b"x"},
        {"l": [1, 2.5]},
        {"n": {"x": 0.5}},
        {"n": {"x": 1, "y": 2}},
        {"n": {"X": 1}},
        {"n.x": dt.date(2024, 1, 1)},
        {"m": {"a": 1.5}},
        {"m": [("a", 1.5)]},
        {"day": dt.datetime(2025, 1, 1, 12)},
        {"id": 2**63},
    ],
    ids=str,
)
def test_a_value_of_python_that_the_column_cannot_hold_is_refused(given: dict[str, Any]) -> None:
    """1.5 became 1, and a time its date."""
    kinds = {"id": pa.int64(), "day": pa.date32(), "l": pa.list_(pa.int64()), "n": pa.struct([("x", pa.int64())])}
    data = pa.table([pa.nulls(1, kind) for kind in kinds.values()], names=list(kinds))
    table = made(data.append_column("m", pa.nulls(1, pa.map_(pa.string(), pa.int64()))))
    with pytest.raises(InvalidArgumentError, match=r"of type .* for .*, not "):
        table.update(given)
    with pytest.raises(InvalidArgumentError):
        table.merge(data, on="id").when_not_matched_insert(given).execute()
    assert table.version == 0
    fits = {"id": 2.0, "day": dt.datetime(2025, 1, 1), "l": [1.0, None], "n": {"x": 5}, "m": [("a", None)]}
    assert table.update(fits).updated == 1
    expected = {"id": 2, "day": dt.date(2025, 1, 1), "l": [1, None], "n": {"x": 5}, "m": [("a", None)]}
    assert table.to_arrow().to_pylist() == [expected]


def test_what_an_update_may_not_do() -> None:
    table = made()
    with table.transaction() as changes:
        changes.add_constraint("positive", "id > 0")
    for error, asked in {
        CheckConstraintViolatedError: {"id": "id - 1"},
        ColumnNotFoundError: {"none": "1"},
        ConflictingAssignmentsError: {"id": "1", "ID": "2"},
        ExpressionFailedError: {"id": "id / 0"},
        InvalidPredicateError: {"v": "reverse(v)"},
        InvalidArgumentError: {},
    }.items():
        with pytest.raises(error):
            table.update(asked)
    assert content(table) == {1: "a", 2: "b", 3: "c"}
    table = made(properties={"delta.appendOnly": "true"})
    for change in (
        table.delete,
        lambda: table.update({"id": 1}),
        lambda: table.overwrite(pa.table({"id": [1], "v": [""]}), "id = 1"),
    ):
        with pytest.raises(AppendOnlyTableError):
            change()


def test_generated_and_identity_columns() -> None:
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    schema = Struct(
        (
            Field(name="i", type=LONG, metadata=identity),
            Field(name="id", type=LONG),
            Field(name="v", type=STRING),
            Field(name="size", type=INTEGER, metadata={"delta.generationExpression": "length(v)"}),
        )
    )
    table = tahoe.Table("/t", env=memory_env())
    table.create(schema)
    table.append(pa.table({"id": [1, 2], "v": ["a", "bb"]}))
    table.update({"v": "v || '!'"}, "id = 1")
    merge = table.merge(pa.table({"id": [2, 3], "v": ["x", "yyyy"]}), on="id")
    merge.when_matched_update({"v": "source.v"}).when_not_matched_insert({"id": "id", "v": "source.v"}).execute()
    rows = table.to_arrow().sort_by("id").to_pylist()
    assert rows == [
        {"i": 1, "id": 1, "v": "a!", "size": 2},
        {"i": 2, "id": 2, "v": "x", "size": 1},
        {"i": 3, "id": 3, "v": "yyyy", "size": 4},
    ]
    with pytest.raises(IdentityUpdateError):
        table.update({"i": 5})
    with pytest.raises(IdentityUpdateError):
        table.merge(pa.table({"i": [9], "id": [2], "v": ["x"]}), on="id").when_matched_update_all().execute()


# --- MERGE


@pytest.mark.parametrize("properties", [{}, VECTORS, VECTORS | FEED])
def test_upsert_by_a_key(properties: dict[str, str]) -> None:
    table = made(properties=properties)
    found = (
        table.merge(pl.DataFrame({"ID": [2, 4], "V": ["B", "D"]}), "id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert (found.updated, found.inserted, found.deleted, found.version) == (1, 1, 0, 1)
    assert content(table) == {1: "a", 2: "B", 3: "c", 4: "D"}


def test_a_source_that_can_be_read_once() -> None:
    table = made()
    batches = iter([pa.record_batch({"id": [1], "v": ["x"]}), pa.record_batch({"id": [7], "v": ["y"]})])
    table.merge(batches, on=["id"]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == {1: "x", 2: "b", 3: "c", 7: "y"}


def test_null_keys_match_nothing_unless_asked() -> None:
    nulls = pa.table({"id": pa.array([None, 1], pa.int64()), "v": ["null", "one"]})
    table = made(nulls)
    source = pa.table({"id": pa.array([None], pa.int64()), "v": ["new"]})
    assert table.merge(source, on="id").when_matched_delete().execute().deleted == 0
    assert table.merge(source, on="target.id <=> source.id").when_matched_update_all().execute().updated == 1
    assert content(table) == {None: "new", 1: "one"}


def test_files_without_a_key_are_not_read() -> None:
    table = made()
    table.append(pa.table({"id": [100, 101], "v": ["x", "y"]}))
    path = table.files(filter="id > 50")["path"][0].as_py()
    table.env.store.delete(path)
    table.merge(pa.table({"id": [1], "v": ["A"]}), on="id").when_matched_update_all().execute()
    assert table.to_arrow(filter="id < 50").num_rows == 3


def test_two_source_rows_for_one_row_are_refused() -> None:
    table = made()
    twice = pa.table({"id": [1, 1], "v": ["x", "y"]})
    with pytest.raises(MultipleSourceRowsError, match="id = 1"):
        table.merge(twice, on="id").when_matched_update_all().execute()
    assert table.merge(twice, on="id").when_matched_delete().execute().deleted == 1
    assert content(table) == {2: "b", 3: "c"}


def test_clauses_that_cannot_apply_are_refused() -> None:
    table, rows = made(), pa.table({"id": [1], "v": ["x"]})
    with pytest.raises(InvalidMergeError, match="no WHEN clause"):
        table.merge(rows, on="id").execute()
    with pytest.raises(InvalidMergeError, match="last WHEN MATCHED"):
        table.merge(rows, on="id").when_matched_delete().when_matched_update_all().execute()
    with pytest.raises(ColumnNotFoundError):
        table.merge(rows, on="id").when_not_matched_insert({"id": "target.id"}).execute()
    with pytest.raises(InvalidPredicateError, match="ambiguous"):
        table.merge(rows, on="id").when_matched_update({"v": "v"}).execute()
    with pytest.raises(ColumnNotFoundError, match="source"):
        table.merge(pa.table({"id": [1]}), on="id").when_matched_update_all().execute()
    assert table.version == 0


def test_a_column_may_have_the_name_of_a_side() -> None:
    table = made(pa.table({"id": [1], "source": ["web"], "v": ["a"]}))
    rows = pa.table({"id": [1], "v": ["x"]})
    table.merge(rows, on="id").when_matched_update(
        {"v": "source.v", "source": "source || '!'"}, "source = 'web'"
    ).execute()
    assert table.to_arrow().to_pylist() == [{"id": 1, "source": "web!", "v": "x"}]
    with pytest.raises(InvalidMergeError, match="both named"):
        table.merge(rows, on="id", source_alias="t", target_alias="T").when_matched_delete().execute()


def test_the_history_counts_files_and_vectors_by_the_names_of_the_reference() -> None:
    for properties, vectors, removed, copied in ((VECTORS, 1, 0, 0), ({}, 0, 1, 1)):
        table = made(properties=properties)
        table.merge(
            pa.table({"id": [1], "v": ["x"]}), on="id"
        ).when_matched_update_all().when_not_matched_by_source_delete("id = 2").execute()
        told = {name: int(count) for name, count in table.history()[0]["operationMetrics"].items()}
        assert (told["numTargetRowsUpdated"], told["numTargetRowsDeleted"], told["numTargetRowsCopied"]) == (
            1,
            1,
            copied,
        )
        assert (told["numTargetDeletionVectorsAdded"], told["numTargetFilesRemoved"]) == (vectors, removed)
        files = table.files()
        assert told["numTargetFilesAdded"] == files.num_rows - vectors
        table.delete()
        told = {name: int(count) for name, count in table.history()[0]["operationMetrics"].items()}
        assert (told["numRemovedFiles"], told["numDeletionVectorsRemoved"]) == (files.num_rows, vectors)
        assert told["numRemovedBytes"] == sum(files["size_bytes"].to_pylist())


def test_columns_of_the_source_are_added() -> None:
    table, rows = made(), pa.table({"id": [1, 9], "v": ["x", "y"], "more": [5, 6]})
    table.merge(rows, on="id", merge_schema=True).when_matched_update_all().when_not_matched_insert_all().execute()
    assert {row["id"]: row["more"] for row in table.to_arrow().to_pylist()} == {1: 5, 2: None, 3: None, 9: 6}


def test_a_struct_with_other_fields_is_refused() -> None:
    """A field that the table lacks was lost, and one that the value lacks became null."""
    table = made(pa.table({"id": [1, 2], "s": [{"a": 1, "b": 1}, {"a": 2, "b": 2}], "l": [[{"a": 1}]] * 2}))
    more, fewer = pa.table({"id": [2], "s": [{"a": 9, "B": 9, "c": 9}]}), pa.table({"id": [2], "s": [{"a": 9}]})
    inside = pa.table({"id": [2], "l": [[{"a": 9, "c": 9}]]})
    for source, told in ((more, "no s.c"), (fewer, "s.b is missing"), (inside, "no l.element.c")):
        name = source.column_names[1]
        merge = table.merge(source, on="id")
        full = source.append_column(
            "l" if name == "s" else "s", table.to_arrow(["l" if name == "s" else "s"]).column(0).slice(0, 1)
        )
        for wrong in (
            merge.when_matched_update({name: f"source.{name}"}),
            merge.when_not_matched_insert({"id": "source.id", name: f"source.{name}"}),
            table.merge(full, on="id").when_matched_update_all(),
            table.merge(full, on="id").when_not_matched_insert_all(),
        ):
            with pytest.raises(SchemaMismatchError, match=re.escape(told)):
                wrong.execute()
    with pytest.raises(SchemaMismatchError, match=r"s\.b is missing"):
        table.update({"s": "CASE WHEN id = 1 THEN named_struct('a', 5L) END"})
    assert table.version == 0


def test_fields_that_the_source_lacks_stay_where_the_schema_may_change() -> None:
    """They became null."""
    kept = {"c": "old", "d": "kept"}
    rows = [
        {"id": 1, "s": {"a": 1, "b": kept}},
        {"id": 2, "s": {"a": 2, "b": kept}},
        {"id": 3, "s": None},
        {"id": 4, "s": {"a": 4, "b": kept}},
    ]
    source = pa.Table.from_pylist(
        [{"id": 2, "s": None}, {"id": 3, "s": None}, {"id": 4, "s": {"A": -4, "b": {"c": "new", "e": "more"}}}]
    )
    source = pa.concat_tables([source, source.slice(2).set_column(0, "id", [[5]])])
    expected = [
        {"id": 1, "s": {"a": 1, "b": {"c": "old", "d": "kept", "e": None}}},
        {"id": 2, "s": {"a": None, "b": {"c": None, "d": "kept", "e": None}}},
        {"id": 3, "s": None},
        {"id": 4, "s": {"a": -4, "b": {"c": "new", "d": "kept", "e": "more"}}},
        {"id": 5, "s": {"a": -4, "b": {"c": "new", "d": None, "e": "more"}}},
    ]
    for clause in ({}, {"s": "source.s"}):
        table = made(pa.Table.from_pylist(rows))
        merge = table.merge(source, on="id", merge_schema=True).when_not_matched_insert_all()
        (merge.when_matched_update(clause) if clause else merge.when_matched_update_all()).execute()
        found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
        assert found == expected, clause


def test_a_merge_that_fails_leaves_a_transaction_as_it_was() -> None:
    table = made()
    rows = pa.table({"id": [1, 1], "v": ["x", "y"], "more": [5, 6]})
    with table.transaction() as changes:
        with pytest.raises(MultipleSourceRowsError):
            changes.merge(rows, on="id", merge_schema=True).when_matched_update_all().execute()
        changes.delete("id = 2")
    assert (table.schema.names, content(table)) == (("id", "v"), {1: "a", 3: "c"})


def test_an_error_of_the_source_is_raised_as_it_is() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1], "v": ["x"]})
        raise LookupError("the source is gone")

    table = made()
    for change in (
        table.append,
        table.overwrite,
        lambda rows: table.overwrite(rows, "id = 1"),
        lambda rows: table.merge(rows, on="id"),
    ):
        with pytest.raises(LookupError, match="gone"):
            change(broken())
    assert (table.version, content(table)) == (0, {1: "a", 2: "b", 3: "c"})


def test_several_operations_in_one_transaction() -> None:
    table = made(properties=VECTORS | FEED)
    with table.transaction() as changes:
        assert changes.update({"v": "'u'"}, "id = 1") == 1
        assert changes.delete("id = 2") == 1
        changes.append(pa.table({"id": [4], "v": ["d"]}))
        changes.merge(pa.table({"id": [3], "v": ["m"]}), on="id").when_matched_update_all().execute()
    assert content(table) == {1: "u", 3: "m", 4: "d"}
    feed = table.changes(start_version=1).select(["id", "v", "_change_type"]).to_pylist()
    assert sorted((row["_change_type"], row["id"], row["v"]) for row in feed) == [
        ("delete", 2, "b"),
        ("insert", 4, "d"),
        ("update_postimage", 1, "u"),
        ("update_postimage", 3, "m"),
        ("update_preimage", 1, "a"),
        ("update_preimage", 3, "c"),
    ]


# --- other writers


def test_a_change_is_run_again_behind_another_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update would be lost, or the caller would have to repeat it."""
    table = made(properties={"delta.isolationLevel": "Serializable"})
    real, others = (
        tahoe.Table.transaction,
        [lambda: again(table).append(pa.table({"id": [1, 8], "v": ["late", "late"]}))],
    )

    def with_rival(self: tahoe.Table, **options: Any) -> Any:
        changes = real(self, **options)
        if others and self is table:
            others.pop()()
        return changes

    monkeypatch.setattr(tahoe.Table, "transaction", with_rival)
    assert table.update({"v": "'new'"}, "id = 1").updated == 2
    assert sorted(table.to_arrow()["v"].to_pylist()) == ["b", "c", "late", "new", "new"]


WINNERS: dict[str, Callable[[tahoe.Table], object]] = {
    "DELETE": lambda table: table.delete("id = 2"),
    "UPDATE": lambda table: table.update({"v": "'late'"}, "id = 2"),
    "OPTIMIZE": lambda table: table.optimize(),
    "MERGE": lambda table: (
        table.merge(pa.table({"id": [2], "v": ["late"]}), on="id").when_matched_update_all().execute()
    ),
    "overwrite": lambda table: table.overwrite(pa.table({"id": [2, 7], "v": ["late", "late"]})),
}
NEW = pa.table({"id": [2, 9], "v": ["new", "new"]})
OVERWRITES: dict[str, tuple[dict[str, Any], Callable[[dict[int, str]], dict[int, str]]]] = {
    "all": ({}, lambda _: {}),
    "replaceWhere": ({"filter": "id > 1"}, lambda rows: {number: text for number, text in rows.items() if number <= 1}),
    "dynamic": (
        {"partitions": "dynamic"},
        lambda rows: {number: text for number, text in rows.items() if number not in (2, 9)},
    ),
}


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("kind", OVERWRITES)
def test_an_overwrite_is_run_again_behind_another_writer(
    kind: str, winner: str, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are written once, even those of a stream that can be read only once."""
    arguments, kept = OVERWRITES[kind]
    table = tahoe.Table("/t", env=memory_env())
    partition_by = ["id"] if kind == "dynamic" else None
    for number, text in ((1, "a"), (2, "b"), (3, "c")):
        table.append(pa.table({"id": [number], "v": [text]}), partition_by=partition_by, properties=properties)
    real, others = arrow_writer.write_files, [lambda: WINNERS[winner](again(table))]
    states: list[dict[int, str]] = []

    def with_rival(*rows: Any, **options: Any) -> Any:
        files = real(*rows, **options)
        if others:
            others.pop()()
            states.append(content(again(table)))
        return files

    monkeypatch.setattr(arrow_writer, "write_files", with_rival)
    version = table.overwrite(iter(NEW.to_batches(max_chunksize=1)), **arguments)
    assert version == table.version
    assert content(table) == {**kept(states[0]), 2: "new", 9: "new"}
    assert list(check_version(table.snapshot())) == []


def test_an_overwrite_that_cannot_be_run_again_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a stream were checked against the schema and the constraints before: they may not fit those of
    now.
    """
    table = made()
    real = arrow_writer.write_files

    def with_rival(*rows: Any, **options: Any) -> Any:
        files, other = real(*rows, **options), again(table)
        other.delete("id = 2")
        with other.transaction() as changes:
            changes.add_constraint("small", "id < 5")
        return files

    for arguments, new in (({}, NEW), ({"filter": "id > 1"}, NEW)):
        before = {info.key for info in table.env.store.walk() if info.key.endswith(".parquet")}
        with monkeypatch.context() as patched:
            patched.setattr(arrow_writer, "write_files", with_rival)
            with pytest.raises(MetadataChangedException):
                table.overwrite(new.to_reader(), **arguments)
        left = {info.key for info in table.env.store.walk() if info.key.endswith(".parquet")} - before
        assert left <= set(table.files()["path"].to_pylist())
        with table.transaction() as changes:
            changes.drop_constraint("small")


@pytest.mark.parametrize("arguments", [{}, {"filter": "id > 1"}], ids=["all", "replaceWhere"])
def test_an_overwrite_gives_up_after_as_many_attempts_as_allowed(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(properties={"tahoe.conflictRetries": "0"})
    real = arrow_writer.write_files

    def with_rival(*rows: Any, **options: Any) -> Any:
        files = real(*rows, **options)
        monkeypatch.undo()
        again(table).delete("id = 2")
        return files

    before = {info.key for info in table.env.store.walk() if info.key.endswith(".parquet")}
    monkeypatch.setattr(arrow_writer, "write_files", with_rival)
    with pytest.raises((ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)):
        table.overwrite(NEW, **arguments)
    assert {info.key for info in table.env.store.walk() if info.key.endswith(".parquet")} - before <= set(
        table.files()["path"].to_pylist()
    )


def test_a_transaction_of_the_user_is_not_run_again() -> None:
    table = made(properties={"delta.isolationLevel": "Serializable"})
    before = {info.key for info in table.env.store.walk()}
    with pytest.raises(ConcurrentAppendException), table.transaction() as changes:
        changes.merge(pa.table({"id": [1], "v": ["m"]}), on="id").when_matched_update_all().execute()
        again(table).append(pa.table({"id": [1], "v": ["late"]}))
    added = {info.key for info in table.env.store.walk() if info.key.endswith(".parquet")} - before
    assert added == set(table.files()["path"].to_pylist()) - before


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_rows_for_which_a_merge_inserted_nothing_must_stay(properties: dict[str, str]) -> None:
    """An upsert would have neither the old row, which another writer has deleted, nor the new one."""
    table = made(properties=properties)
    with pytest.raises(ConcurrentDeleteReadException), table.transaction() as changes:
        changes.merge(pa.table({"id": [1, 9], "v": ["x", "y"]}), on="id").when_not_matched_insert_all().execute()
        again(table).delete("id = 1")
    assert content(table) == {2: "b", 3: "c"}


def test_nothing_is_left_of_a_merge_that_fails() -> None:
    table = made(properties=VECTORS | FEED)
    with table.transaction() as changes:
        changes.add_constraint("short", "length(v) < 5")
    before = {info.key for info in table.env.store.walk() if info.key.endswith(".parquet")}
    source = pa.table({"id": [1, 9], "v": ["ok", "too long"]})
    with pytest.raises(CheckConstraintViolatedError):
        table.merge(source, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert {info.key for info in table.env.store.walk() if info.key.endswith(".parquet")} == before
    assert content(table) == {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize("ends", ["commits", "fails"])
def test_a_transaction_that_has_ended_holds_no_rows(ends: str) -> None:
    """A notebook keeps the variable of its `with` for hours; it held up to 256 MB."""
    table = tahoe.Table("memory://ended", env=memory_env())
    table.append(pa.table({"id": [1, 2, 3]}))
    changes = table.transaction()
    with suppress(KeyError), changes:
        changes.delete("id = 1")
        assert changes._rows._kept
        if ends == "fails":
            raise KeyError
    assert not changes._rows._kept
    assert table.count() == (2 if ends == "commits" else 3)
