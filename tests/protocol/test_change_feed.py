"""Which files tell what a commit changed, and when an earlier version's rows can be read by a later schema."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tahoe.protocol.configuration.change_feed import (
    DeletionVectorChange,
    Fit,
    Recorded,
    Whole,
    changes_of,
    first_incompatibility,
)
from tahoe.protocol.configuration.column_mapping import assign_mapping
from tahoe.protocol.log.actions import Add, Cdc, CommitInfo, Metadata, Remove
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, VOID, Array, Field, Struct

ONE, TWO = inline_descriptor([1]), inline_descriptor([1, 2])


def add(path, **fields):
    return Add(**{"path": path, "size_bytes": 10, "modification_time_ms": 1, **fields})


def remove(path, **fields):
    return Remove(**{"path": path, "size_bytes": 10, "partition_values": {}, **fields})


def changes(*actions):
    return changes_of(actions, lambda path: path.replace("%20", " "))


# --- commits


def test_change_data_files_alone_count_where_there_are_any():
    recorded = Cdc(path="_change_data/c", size_bytes=1)
    assert changes(add("a"), recorded, remove("b")) == [Recorded(recorded)]


def test_files_that_come_are_inserts_and_files_that_go_are_deletes():
    came, gone = add("a"), remove("b")
    assert changes(came, gone) == [Whole("delete", gone), Whole("insert", came)]


def test_rearranged_data_is_no_change():
    assert changes(add("a", data_change=False), remove("b", data_change=False)) == []


def test_a_file_that_comes_or_goes_with_a_vector_keeps_it():
    came, gone = add("a", deletion_vector=ONE), remove("b", deletion_vector=TWO)
    assert [c.file.deletion_vector for c in changes(came, gone)] == [TWO, ONE]


def test_a_files_first_vector_deletes_what_it_marks():
    (found,) = changes(add("a", deletion_vector=ONE), remove("a"))
    assert (found.kind, found.marked, found.unless) == ("delete", ONE, None)


def test_a_vector_that_is_taken_back_inserts_what_it_marked():
    (found,) = changes(add("a"), remove("a", deletion_vector=ONE))
    assert (found.kind, found.marked, found.unless) == ("insert", ONE, None)


def test_two_vectors_of_one_file_are_compared_both_ways():
    found = changes(remove("a", deletion_vector=ONE), add("a", deletion_vector=TWO))
    assert [(c.kind, c.marked, c.unless) for c in found] == [("delete", TWO, ONE), ("insert", ONE, TWO)]


def test_two_spellings_of_a_path_are_one_file():
    assert [type(c) for c in changes(add("a%20b", deletion_vector=ONE), remove("a b"))] == [DeletionVectorChange]


def test_what_a_bare_tombstone_does_not_say_of_a_file_is_in_the_new_action():
    """Else the deleted rows had no partition values, and a file of no size is not read by Spark at all."""
    bare = Remove(path="a", stats="s")
    (found,) = changes(
        bare, add("a", deletion_vector=ONE, partition_values={"p": "1"}, stats="of the rows that are left")
    )
    assert (found.file.partition_values, found.file.size_bytes, found.file.stats) == ({"p": "1"}, 10, "s")


@pytest.mark.parametrize(("count", "expected"), [("0", 0), ("1", 2), (None, 2)])
def test_a_merge_that_says_it_changed_no_row_changed_none(count, expected):
    metrics = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": count}
    info = CommitInfo({"operation": "MERGE", "operationMetrics": {k: v for k, v in metrics.items() if v is not None}})
    assert len(changes(info, add("a"), remove("b"))) == expected


def test_metrics_of_another_operation_mean_nothing():
    info = CommitInfo({"operation": "UPDATE", "operationMetrics": {"numTargetRowsInserted": "0"}})
    assert len(changes(info, add("a"))) == 1


# --- schemas

ID, NAME = Field(name="id", type=LONG), Field(name="name", type=STRING)


def metadata(*fields, by=()):
    return Metadata(id="t", schema_string=Struct(fields).to_json(), partition_columns=by)


def mapped(*fields, start_id=0):
    names = iter(f"col-{i}" for i in range(start_id, 100))
    schema, _ = assign_mapping(Struct(fields), "name", lambda _: next(names), start_id)
    return Metadata(id="t", schema_string=schema.to_json())


def changed(earlier, read, mode="none", read_mode="none"):
    return first_incompatibility(read, read_mode, earlier, mode, Fit())


@pytest.mark.parametrize(
    ("earlier", "read"),
    [
        ([ID], [ID]),
        ([ID], [ID, NAME]),
        ([ID], [NAME, ID]),
        ([replace(ID, nullable=False)], [ID]),
        ([Field(name="s", type=Struct((ID,)))], [Field(name="s", type=Struct((ID, NAME)))]),
        ([Field(name="v", type=VOID)], [Field(name="v", type=STRING)]),
    ],
)
def test_columns_may_be_added_and_not_null_taken_back(earlier, read):
    assert changed(metadata(*earlier), metadata(*read)) is None


@pytest.mark.parametrize(
    ("earlier", "read", "path"),
    [
        ([ID, NAME], [ID], "name"),
        ([ID], [replace(ID, name="ID")], "id"),
        ([ID], [replace(ID, nullable=False)], "id"),
        ([replace(ID, type=INTEGER)], [ID], "id"),
        ([Field(name="s", type=Struct((ID, NAME)))], [Field(name="s", type=Struct((ID,)))], "s.name"),
        (
            [Field(name="a", type=Array(element=Struct((NAME,))))],
            [Field(name="a", type=Array(element=Struct((ID,))))],
            "a.element.name",
        ),
        (
            [Field(name="a", type=Array(element=LONG))],
            [Field(name="a", type=Array(element=LONG, contains_null=False))],
            "a",
        ),
    ],
)
def test_columns_that_went_or_became_others_are_named(earlier, read, path):
    assert changed(metadata(*earlier), metadata(*read)) == f"its column {path}"


def test_other_partition_columns_do_not_fit():
    assert "partition columns (id)" in changed(metadata(ID, by=("id",)), metadata(ID))


def test_a_renamed_column_is_not_taken_for_a_new_one_of_its_old_name():
    old = mapped(ID, NAME)
    fields = [f if f.name == "id" else replace(f, name="first") for f in old.schema]
    again = mapped(*fields, NAME, start_id=50)
    assert changed(old, again, "name", "name") == "its column name"


def test_a_renamed_field_inside_an_array_is_seen():
    old = mapped(Field(name="a", type=Array(element=Struct((NAME,)))))
    other = mapped(Field(name="a", type=Array(element=Struct((NAME,)))), start_id=50)
    renamed = replace(old.schema.fields[0], type=other.schema.fields[0].type)
    assert changed(old, metadata(renamed), "name", "name") == "its column a.element.name"


def test_mapping_may_be_switched_on_but_not_off():
    plain = metadata(ID)
    upgraded, _ = assign_mapping(Struct((ID,)), "name", lambda f: f.name, 0)
    assert changed(plain, metadata(*upgraded), "none", "name") is None
    assert "disabled" in changed(metadata(*upgraded), plain, "name", "none")
