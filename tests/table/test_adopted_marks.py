"""What RESTORE and CLONE must not take back or mix up: identity values, row ids, bounds of other types, manifests of other partitions."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ManifestPropertyError
from tahoe.protocol.actions import Metadata, Protocol, remove_of
from tahoe.protocol.column_changes import ColumnChange
from tahoe.protocol.file_paths import decode_path
from tahoe.protocol.partitions import partition_folder
from tahoe.protocol.schema import DATE, DOUBLE, LONG, STRING, TIMESTAMP_NTZ, Field, Struct
from tahoe.protocol.stats import parse_statistics
from tahoe.table.arrow.statistics import texts_of_parsed
from tahoe.table.verify.check import check_table
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


# --- row ids


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
    widening = {"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported", "delta.checkpointPolicy": policy}
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
    parsed = pa.StructArray.from_arrays([pa.array([1]), pa.StructArray.from_arrays([far], ["d"])], ["numRecords", "maxValues"])
    texts = texts_of_parsed(pa.chunked_array([parsed]), Struct((Field(name="d", type=DATE),)))
    assert texts.to_pylist() == ['{"numRecords":1,"maxValues":{"d":"+12921-08-18"}}']


# --- manifests


@pytest.mark.parametrize(("before", "after"), [(["p"], []), ([], ["p"]), (["q", "p"], ["q"]), (["q"], ["q", "p"])])
def test_manifests_of_other_partition_columns_do_not_stay(before: list[str], after: list[str]) -> None:
    env, other = memory_env(), memory_env()
    table, replaced = tahoe.Table(env.store.url, env=env), tahoe.Table(other.store.url, env=other)
    rows = numbers(1, 2).append_column("q", pa.array(["a", "a"]))
    table.append(rows, partition_by=before or None, properties={"delta.compatibility.symlinkFormatManifest.enabled": "true"})
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
    vectors, manifests = {"delta.enableDeletionVectors": "true"}, {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
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
