"""What RESTORE and CLONE must not take back or mix up: numbers that were assigned, bounds of other types, manifests of
other partitions.

The law of numbers is in `tests/property/test_numbers_law.py`; here is what it follows from.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ManifestPropertyError
from tahoe.protocol.changes.assigned_numbers import with_identity_marks_of, with_numbers_of
from tahoe.protocol.changes.column_changes import ColumnChange
from tahoe.protocol.log.actions import Metadata, Protocol, remove_of
from tahoe.protocol.log.file_paths import decode_path
from tahoe.protocol.statistics.stats import parse_statistics
from tahoe.protocol.types.partitions import partition_folder
from tahoe.protocol.types.schema import DATE, DOUBLE, LONG, STRING, TIMESTAMP_NTZ, Field, Struct
from tahoe.table.arrow.statistics import texts_of_parsed
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.verify.check import check_table
from tahoe.table.writing.planning import create_table
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env, put_commit

TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}


def numbers(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [f"{i % 2} %" for i in ids]})


def findings(table: tahoe.Table) -> list[str]:
    return [str(found) for found in check_table(table.log)]


def set_properties(table: tahoe.Table, properties: dict[str, str]) -> None:
    with table.transaction() as changes:
        changes.set_properties(properties)


# --- identity values


def test_identity_values_are_not_given_twice_after_a_version_before_column_mapping() -> None:
    """The column has an id in one of the two versions only."""
    env = memory_env()
    schema = Struct((Field(name="k", type=LONG, metadata=IDENTITY), Field(name="v", type=STRING)))
    protocol = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"identityColumns"}))
    put_commit(env, 0, [protocol, Metadata(id="t", schema_string=schema.to_json())])
    table = tahoe.Table(env.store.url, env=env)
    table.append(pa.table({"v": ["a"]}))
    set_properties(table, MAPPED)
    with table.transaction() as changes:
        changes.rename_column(("k",), "key")
    table.append(pa.table({"v": ["b", "c"]}))
    table.restore(1)
    table.append(pa.table({"v": ["d"]}))
    table.restore(4)
    table.append(pa.table({"v": ["e"]}))
    given = [table.to_arrow().to_pydict()] + [table.snapshot(version).to_arrow().to_pydict() for version in (4, 6)]
    by_text = {text: key for rows in given for text, key in zip(rows["v"], rows.get("key") or rows["k"], strict=True)}
    assert by_text == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


def test_identity_values_are_not_given_twice_after_a_version_without_the_column() -> None:
    """The newest version has no mark when the column comes back. The property that keeps it goes when it is of no use
    any more.
    """
    table = with_identity_column()
    for text in "ab":
        table.append(pa.table({"v": [text]}))
    table.overwrite(pa.table({"v": ["c"]}), overwrite_schema=True)
    assert table.properties["tahoe.keptMarks"] == '{"identity":{"k":[2]}}'
    table.restore(1)
    table.append(pa.table({"v": ["d"]}))
    assert sorted(zip(*table.to_arrow(["v", "k"]).to_pydict().values(), strict=True)) == [("a", 1), ("d", 3)]
    assert "tahoe.keptMarks" not in table.properties


def test_a_column_that_is_declared_anew_begins_where_it_is_declared() -> None:
    """So it is in the reference. A version before it goes on behind both."""
    table = with_identity_column()
    for text in "abc":
        table.append(pa.table({"v": [text]}))
    create_table(table, WriteRequest(mode="error", schema=table.schema, keep_nullability=True), replace_existing=True)
    table.append(pa.table({"v": ["d"]}))
    assert table.to_arrow(["k"])["k"].to_pylist() == [1]
    table.restore(1)
    table.append(pa.table({"v": ["e"]}))
    assert sorted(table.to_arrow(["k"])["k"].to_pylist()) == [1, 4]


def test_kept_marks_are_of_their_direction_and_survive_a_property_of_another_version() -> None:
    descending = Struct(
        (Field(name="k", type=LONG, metadata={**IDENTITY, "delta.identity.step": -1}), Field(name="v", type=STRING))
    )
    kept = {"tahoe.keptMarks": '{"identity":{"k":[-7,5]},"more":[1]}'}
    before = Metadata(id="t", schema_string=Struct((Field(name="v", type=STRING),)).to_json(), configuration=kept)
    (column,) = [f for f in with_identity_marks_of(before, descending, table="t") if f.name == "k"]
    assert column.metadata["delta.identity.highWaterMark"] == -7
    after = with_numbers_of(before, before.replace(configuration={}), table="t")
    assert after.configuration == {"tahoe.keptMarks": '{"identity":{"k":[-7,5]}}'}
    again = before.replace(schema_string=with_identity_marks_of(before, descending, table="t").to_json())
    assert with_numbers_of(before, again, table="t").configuration == {"tahoe.keptMarks": '{"identity":{"k":[5]}}'}


def with_identity_column() -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    schema = Struct((Field(name="k", type=LONG, metadata=IDENTITY), Field(name="v", type=STRING)))
    create_table(table, WriteRequest(mode="error", schema=schema, keep_nullability=True))
    return table


# --- column ids


def column_ids(table: tahoe.Table) -> dict[str, int]:
    return {column.name: column.metadata["delta.columnMapping.id"] for column in table.schema}


def test_column_ids_go_on_behind_a_version_or_a_clone_without_column_mapping() -> None:
    env = memory_env()
    table = tahoe.Table("memory://t", env=env)
    table.append(numbers(1))
    set_properties(table, MAPPED)
    used = [column_ids(table)]
    table.restore(0)
    assert table.properties["delta.columnMapping.maxColumnId"] == "2"
    set_properties(table, MAPPED)
    used.append(column_ids(table))
    source = replace(env, store=env.store_at("memory://source-without-mapping"))
    tahoe.Table(source.store.url, env=source).append(numbers(2))
    tahoe.Table(source.store.url, env=source).clone(env.store.url, replace=True, env=env)
    set_properties(table, MAPPED)
    used.append(column_ids(table))
    assert used == [{"id": 1, "p": 2}, {"id": 3, "p": 4}, {"id": 5, "p": 6}]


# --- versions of applications


def test_a_clone_takes_no_version_of_an_application_back() -> None:
    """The application would write again what it has written. Later versions of the source count."""
    env = memory_env()
    source, target = (
        replace(env, store=env.store_at(f"memory://{name}-of-applications")) for name in ("source", "target")
    )
    tables = [tahoe.Table(each.store.url, env=each) for each in (source, target)]
    for table, versions in zip(tables, ({"a": 3, "b": 9}, {"a": 5, "b": 2}), strict=True):
        for app, version in versions.items():
            table.append(numbers(version), txn=(app, version))
    tables[0].clone(tables[1].url, replace=True, env=target)
    assert [tables[1].snapshot().txn_version(app) for app in ("a", "b")] == [5, 9]


# --- row ids


def base_row_ids(table: tahoe.Table, version: int | None = None) -> dict[str, tuple[int | None, int | None]]:
    """Base row id and default row commit version by path."""
    return {add.path: (add.base_row_id, add.default_row_commit_version) for add in table.snapshot(version).live.adds()}


@pytest.mark.parametrize("features", [["rowTracking"], ["rowTracking", "domainMetadata"]])
def test_row_ids_go_on_where_they_ended_before_the_feature_was_dropped(features: list[str]) -> None:
    """The domain stays with its mark. If it cannot, a property has the mark, also after the log was cleaned up."""
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(numbers(0, 1), properties=TRACKED)
    table.append(numbers(2, 3))
    for feature in features:
        table.drop_feature(feature)
    assert table.properties.get("tahoe.keptMarks") == ('{"rowId":3}' if "domainMetadata" in features else None)
    table.create_checkpoint()
    table = tahoe.Table(table.url, env=table.env)
    if "domainMetadata" in features:
        clean_log(table.snapshot(), dt.timedelta(0))
        set_properties(table, TRACKED)
        assert sorted(base for base, _ in base_row_ids(table).values()) == [4, 6]
    else:
        table.restore(0)
        table.append(numbers(4))
        assert sorted(base for base, _ in base_row_ids(table).values()) == [0, 4]
    assert findings(table) == []


def test_row_ids_go_on_where_they_ended_before_another_writer_dropped_the_feature() -> None:
    """It leaves the last mark in a tombstone, which a checkpoint does not have."""
    env = memory_env()
    table = tahoe.Table("memory://t", env=env)
    table.append(numbers(0, 1), properties=TRACKED)
    table.append(numbers(2, 3))
    before = table.snapshot()
    mark = before.domains["delta.rowTracking"].replace(removed=True)
    protocol = before.protocol.replace(writer_features=frozenset({"appendOnly", "invariants", "domainMetadata"}))
    bare = [
        add.replace(base_row_id=None, default_row_commit_version=None, data_change=False) for add in before.live.adds()
    ]
    put_commit(env, 2, [protocol, before.metadata.replace(configuration={}), mark, *bare])
    table.create_checkpoint()
    table = tahoe.Table(table.url, env=env)
    table.restore(0)
    table.append(numbers(4))
    assert sorted(base for base, _ in base_row_ids(table).values()) == [0, 4]
    assert findings(table) == []


@pytest.mark.parametrize("deep", [True, False])
def test_a_file_that_a_clone_adds_again_has_the_row_ids_that_it_had(deep: bool) -> None:
    """Protocol: the base row id is that of the last add of the path. It may be a tombstone, or have another deletion
    vector.
    """
    env = memory_env()
    place = replace(env, store=env.store_at(f"memory://target-of-ids-{deep}"))
    source, target = (tahoe.Table(each.store.url, env=each) for each in (env, place))
    source.append(numbers(0, 1), properties={**TRACKED, "delta.enableDeletionVectors": "true"})
    source.append(numbers(2, 3))
    source.clone(target.url, shallow=not deep, env=place)
    first = base_row_ids(target)
    target.overwrite(numbers(9))
    target.create_checkpoint()
    source.clone(target.url, shallow=not deep, replace=True, env=place)
    assert base_row_ids(target) == first
    source.delete("id = 1")
    source.clone(target.url, shallow=not deep, replace=True, env=place)
    assert base_row_ids(target) == first
    target.append(numbers(5))
    assert max(base_row_ids(target).values()) == (5, 4)
    assert findings(target) == []


def test_a_file_that_had_no_row_ids_in_the_restored_version_has_those_that_it_got_since() -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(numbers(0, 1), properties={"delta.enableDeletionVectors": "true"})
    table.append(numbers(2, 3))
    set_properties(table, {**TRACKED})
    given = base_row_ids(table)
    table.delete("id >= 1")
    table.restore(1)
    set_properties(table, {**TRACKED})
    assert base_row_ids(table) == given
    assert findings(table) == []


def test_rows_have_the_ids_of_the_version_after_row_ids_began_anew() -> None:
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(numbers(0, 1, 2, 3), properties=TRACKED)
    table.append(numbers(4, 5))
    table.append(numbers(6, 7, 8))
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = sorted(table.to_arrow(columns).to_pylist(), key=str)
    with table.transaction() as changes:
        changes.delete("id < 4")
    table.drop_feature("rowTracking")
    set_properties(table, TRACKED)
    table.restore(2)
    assert sorted(table.to_arrow(columns).to_pylist(), key=str) == before
    assert findings(table) == []


# --- bounds in checkpoints


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_bounds_of_a_checkpoint_are_those_of_the_type_that_a_column_has_now(policy: str) -> None:
    """Only `stats_parsed` has them, in the type that the column had when the checkpoint was written."""
    struct_only = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
    widening = {
        "delta.enableTypeWidening": "true",
        "delta.feature.timestampNtz": "supported",
        "delta.checkpointPolicy": policy,
    }
    env = memory_env()
    table = tahoe.Table("memory://t", env=env)
    days = pa.array([dt.date(2020, 1, 1), None, dt.date(2020, 6, 1)])
    table.append(pa.table({"d": days, "n": pa.array([1, 2, 3], pa.int32())}), properties=struct_only | widening)
    table.create_checkpoint()
    with table.transaction() as changes:
        changes.alter_columns([ColumnChange(path=("d",), type=TIMESTAMP_NTZ), ColumnChange(path=("n",), type=DOUBLE)])
    with tahoe.Table(env.store.url, env=env).transaction() as changes:
        changes.delete("true")
    table = tahoe.Table(env.store.url, env=env)
    table.restore(1)
    entry = next(iter(table.snapshot().live.adds()))
    found = parse_statistics(entry.stats, table.schema)
    assert found is not None
    assert found.num_records == 3
    assert found.min_values == {("d",): dt.datetime(2020, 1, 1), ("n",): 1.0}
    assert found.max_values == {("d",): dt.datetime(2020, 6, 1), ("n",): 3.0}
    assert found.null_count == {("d",): 1, ("n",): 0}
    table.restore(0)
    table.create_checkpoint()
    table = tahoe.Table(env.store.url, env=env)
    assert table.to_arrow()["d"].to_pylist() == days.to_pylist()
    assert findings(table) == []


def test_bounds_of_a_checkpoint_outside_of_pythons_calendar() -> None:
    far = pa.array([4_000_000], pa.int32()).cast(pa.date32())
    parsed = pa.StructArray.from_arrays(
        [pa.array([1]), pa.StructArray.from_arrays([far], ["d"])], ["numRecords", "maxValues"]
    )
    texts = texts_of_parsed(pa.chunked_array([parsed]), Struct((Field(name="d", type=DATE),)))
    assert texts.to_pylist() == ['{"numRecords":1,"maxValues":{"d":"+12921-08-18"}}']


# --- manifests


@pytest.mark.parametrize(("before", "after"), [(["p"], []), ([], ["p"]), (["q", "p"], ["q"]), (["q"], ["q", "p"])])
def test_manifests_of_other_partition_columns_do_not_stay(before: list[str], after: list[str]) -> None:
    env, other = memory_env(), memory_env()
    table, replaced = tahoe.Table(env.store.url, env=env), tahoe.Table(other.store.url, env=other)
    rows = numbers(1, 2).append_column("q", pa.array(["a", "a"]))
    table.append(
        rows, partition_by=before or None, properties={"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    )
    replaced.append(rows, partition_by=after or None)
    adds = list(replaced.snapshot().live.adds())
    for entry in adds:
        env.store.put(f"new/{decode_path(entry.path)}", other.store.get(decode_path(entry.path)))
    metadata = table.snapshot().metadata.replace(partition_columns=tuple(after))
    removes = [remove_of(entry, 1) for entry in table.snapshot().live.adds()]
    put_commit(env, 1, [metadata, *removes, *(entry.replace(path=f"new/{entry.path}") for entry in adds)])
    table = tahoe.Table(env.store.url, env=env)
    table.generate()
    table.restore(0)
    folders = {partition_folder(before, entry.partition_values) for entry in table.snapshot().live.adds()}
    root = "_symlink_format_manifest"
    found = {info.key for info in env.store.walk(root) if info.key.endswith("/manifest")}
    assert found == {f"{root}/{folder}/manifest".replace("//", "/") for folder in folders}


def test_the_property_is_judged_by_the_files_that_the_commit_leaves() -> None:
    """A clone would have files with vectors; a restored version has none, whatever the newest version has."""
    env, url = memory_env(), "memory://clone-with-vectors"
    vectors, manifests = (
        {"delta.enableDeletionVectors": "true"},
        {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
    )
    table = tahoe.Table(env.store.url, env=env)
    table.append(numbers(1, 2, 3), properties=manifests)
    set_properties(table, dict.fromkeys(manifests, "false") | vectors)
    with table.transaction() as changes:
        changes.delete("id = 1")
    set_properties(table, dict.fromkeys(vectors, "false"))
    target = replace(env, store=env.store_at(url))
    with pytest.raises(ManifestPropertyError, match="deletion vectors"):
        table.clone(url, shallow=True, properties=manifests, env=target)
    assert not tahoe.Table(url, env=target).exists()
    with pytest.raises(ManifestPropertyError, match="deletion vectors"):
        set_properties(table, manifests)
    table.restore(0)
    assert env.store.get("_symlink_format_manifest/manifest").decode().count("\n") == 1
    assert findings(table) == []
