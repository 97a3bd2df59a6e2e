"""Symlink manifests list exactly the live files, whoever commits when."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import (
    ManifestModeError,
    ManifestPropertyError,
    ManifestsWithColumnMappingError,
    ManifestsWithNullTextError,
    ManifestsWithVectorsError,
    PostCommitHookFailedError,
    StorageRefusedError,
)
from tahoe.protocol.log.file_paths import resolve_path
from tahoe.protocol.types.partitions import HIVE_NULL, partition_folder
from tahoe.storage.env import Env
from tahoe.table.commit import draft, symlink_manifests
from tahoe.table.commit.symlink_manifests import manifests_after_commit
from tests.examples import fewer
from tests.table.builders import memory_env

ON = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
ROOT = "_symlink_format_manifest"


def rows(*days: int | None) -> pa.Table:
    days_and_ids = {"id": pa.array(range(len(days)), pa.int64()), "day": pa.array(days, pa.int64())}
    return pa.table({**days_and_ids, "x": ["a b"] * len(days)})


def manifests(table: tahoe.Table) -> dict[str, list[str]]:
    store = table.env.store
    return {
        info.key: sorted(store.get(info.key).decode().splitlines())
        for info in store.walk(ROOT)
        if info.key.endswith("/manifest")
    }


def expected(table: tahoe.Table) -> dict[str, list[str]]:
    snapshot = table.snapshot()
    found: dict[str, list[str]] = {} if snapshot.partition_columns else {f"{ROOT}/manifest": []}
    for add in snapshot.live.adds():
        folder = partition_folder(snapshot.partition_columns, add.partition_values)
        key = f"{ROOT}/{folder}/manifest" if folder else f"{ROOT}/manifest"
        found.setdefault(key, []).append(resolve_path(add.path, table.url).replace("file:///", "file:/"))
    return {key: sorted(paths) for key, paths in found.items()}


def new(env: Env | None = None, **options: Any) -> tahoe.Table:
    env = env or memory_env()
    table = tahoe.Table(env.store.url, env=env)
    table.append(rows(1, 2), **options)
    return table


@pytest.mark.parametrize("options", [{}, {"partition_by": ["day"]}, {"partition_by": ["x", "day"]}])
def test_manifests_list_the_live_files_of_each_partition(options: Any) -> None:
    table = new(**options)
    table.append(rows(2, None, 3))
    report = table.generate("SYMLINK_FORMAT_MANIFEST")
    assert manifests(table) == expected(table)
    assert (report.version, report.written) == (1, len(expected(table)))


def test_the_format_is_that_of_hadoop(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "a b"))
    table.append(pa.table({"id": [1], "p": ["x/y z"]}), partition_by=["p"])
    table.generate()
    (path,) = (add.path for add in table.snapshot().live.adds())
    name = path.rpartition("/")[2]
    found = (tmp_path / "a b" / ROOT / "p=x%2Fy z" / "manifest").read_text()
    assert found == f"file:{tmp_path}/a b/p=x%2Fy z/{name}\n"
    assert Path(found.strip().removeprefix("file:")).exists()


def test_timestamps_are_spelled_as_hive_reads_them() -> None:
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    moments = [
        dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=dt.UTC),
        None,
    ]
    data = pa.table({"id": [1, 2, 3], "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    table.append(data, partition_by=["at"], properties=ON)
    folders = {f"at=2026-01-31 12%3A00%3A00{fraction}" for fraction in ("", ".5")} | {"at=__HIVE_DEFAULT_PARTITION__"}
    assert manifests(table).keys() == {f"{ROOT}/{folder}/manifest" for folder in folders}
    table.append(data.slice(0, 1))
    assert sorted(map(len, manifests(table).values())) == [1, 1, 2]
    with table.transaction() as change:
        change.remove([add.path for add in table.snapshot().live.adds() if add.partition_values["at"] is not None])
    assert manifests(table).keys() == {f"{ROOT}/at=__HIVE_DEFAULT_PARTITION__/manifest"}


def test_a_table_without_files_has_an_empty_manifest_and_a_partitioned_one_has_none() -> None:
    plain, partitioned = new(), new(partition_by=["day"])
    for table in (plain, partitioned):
        table.generate()
        with table.transaction() as changes:
            changes.delete("true")
        table.generate()
    assert manifests(plain) == {f"{ROOT}/manifest": []}
    assert manifests(partitioned) == {}


def test_stale_manifests_and_their_folders_go(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(rows(1, 2), partition_by=["day"], properties=ON)
    stale = tmp_path / "t" / ROOT / "day=1"
    assert manifests(table) == expected(table)
    (stale / ".manifest.crc").write_bytes(b"of Hadoop")
    with table.transaction() as changes:
        changes.delete("day = 1")
    assert not stale.exists()
    assert manifests(table) == expected(table)


def test_a_checksum_of_hadoop_does_not_outlive_its_manifest(tmp_path: Path) -> None:
    table = tahoe.Table(str(tmp_path / "t"))
    table.append(rows(1), properties=ON)
    (tmp_path / "t" / ROOT / ".manifest.crc").write_bytes(b"of Hadoop")
    table.append(rows(1))
    assert not (tmp_path / "t" / ROOT / ".manifest.crc").exists()


CHANGES = st.lists(st.tuples(st.sampled_from(["append", "delete", "optimize"]), st.integers(1, 3)), max_size=6)


@fewer(4)
@given(CHANGES, st.booleans())
def test_with_the_property_each_commit_leaves_current_manifests(
    changes: list[tuple[str, int]], is_partitioned: bool
) -> None:
    table = new(partition_by=["day"] if is_partitioned else None, properties=ON)
    assert manifests(table) == expected(table)
    for kind, day in changes:
        if kind == "append":
            table.append(rows(day, None))
        elif kind == "delete":
            with table.transaction() as edits:
                edits.delete(f"day = {day}")
        else:
            table.optimize()
        assert manifests(table) == expected(table)


def test_only_partitions_that_a_commit_changes_are_written_again() -> None:
    table = new(partition_by=["day"], properties=ON)
    table.env.store.put(f"{ROOT}/day=1/manifest", b"untouched")
    table.append(rows(2))
    assert table.env.store.get(f"{ROOT}/day=1/manifest") == b"untouched"
    assert manifests(table)[f"{ROOT}/day=2/manifest"] == expected(table)[f"{ROOT}/day=2/manifest"]


def test_switching_the_property_on_writes_all_manifests_anew() -> None:
    table = new(partition_by=["day"])
    table.env.store.put(f"{ROOT}/day=9/manifest", b"stale")
    with table.transaction() as changes:
        changes.set_properties(ON)
    assert manifests(table) == expected(table)


@pytest.mark.parametrize(
    ("partition_by", "files"),
    [(["day"], True), (["day"], False), (None, False)],
    ids=["files", "no files", "no files and no partitions"],
)
def test_a_writer_that_another_has_overtaken_does_not_overwrite_newer_manifests(
    monkeypatch: pytest.MonkeyPatch, partition_by: list[str] | None, files: bool
) -> None:
    """While one writer puts its manifest, another one commits and puts its own, if its commits have files."""
    table = new(partition_by=partition_by, properties=ON)
    other, late = tahoe.Table(table.url, env=table.env), iter(range(1))
    put = symlink_manifests._put

    def slow(store: Any, contents: Any) -> None:
        for _ in late:
            if files:
                other.append(rows(1, 3))
            with other.transaction() as changes:
                changes.delete("day = 2") if files else changes.set_properties({"mine": "1"})
        put(store, contents)

    monkeypatch.setattr(symlink_manifests, "_put", slow)
    table.append(rows(1, 2))
    assert (table.version, manifests(table)) == (3 if files else 2, expected(table))


def test_a_writer_behind_which_others_have_committed_writes_the_newest_files() -> None:
    table = new(partition_by=["day"], properties=ON)
    base = table.snapshot()
    table.append(rows(1))
    manifests_after_commit(table.log, base, 0, base.metadata, list(base.live.adds()))
    assert manifests(table) == expected(table)


def killed(table: tahoe.Table, *days: int) -> None:
    """Append as a writer that is killed before it writes manifests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft, "manifests_after_commit", lambda *_: None)
        table.append(rows(*days))


@pytest.mark.parametrize("partition_by", [None, ["day"]])
@pytest.mark.parametrize("commits", [1, 3, symlink_manifests._COMMITS_BEHIND_MAX + 1])
def test_manifests_that_a_killed_writer_left_behind_are_written_by_the_next(
    commits: int, partition_by: list[str] | None
) -> None:
    table = new(partition_by=partition_by, properties=ON)
    for day in range(commits):
        killed(table, day)
    assert manifests(table) != expected(table)
    table.append(rows(500))
    assert manifests(table) == expected(table)


def test_manifests_of_a_table_that_was_made_again_are_all_written() -> None:
    table = new(partition_by=["day"], properties=ON)
    table.append(rows(7))
    env = table.env
    for info in list(env.store.walk()):
        if not info.key.startswith(ROOT):
            env.store.delete(info.key)
    again = new(env, partition_by=["day"], properties=ON)
    again.append(rows(3))
    assert manifests(again) == expected(again)


def test_what_says_up_to_where_manifests_are_complete_may_be_anything() -> None:
    table = new(partition_by=["day"], properties=ON)
    for content in (b"", b"[]", b"{}", b"null", b'{"tableId": 1, "version": 1}', b"\xff"):
        table.env.store.put(symlink_manifests._COMPLETE, content)
        table.env.store.put(f"{ROOT}/day=1/manifest", b"stale")
        table.append(rows(2))
        assert manifests(table) == expected(table)


def test_other_modes_are_refused() -> None:
    with pytest.raises(ManifestModeError, match="symlink_format_manifest"):
        new().generate("hive")


def test_vectors_and_column_mapping_are_refused_before_anything_is_written() -> None:
    mapped, marked = (
        new(properties={"delta.columnMapping.mode": "name"}),
        new(properties={"delta.enableDeletionVectors": "true"}),
    )
    with marked.transaction() as changes:
        changes.delete("id = 1")
    for table, error in ((mapped, ManifestsWithColumnMappingError), (marked, ManifestsWithVectorsError)):
        with pytest.raises(error):
            table.generate()
        assert manifests(table) == {}


@pytest.mark.parametrize("feature", ["delta.enableDeletionVectors=true", "delta.columnMapping.mode=name"])
def test_the_property_excludes_features_that_readers_of_manifests_do_not_know(feature: str) -> None:
    name, _, value = feature.partition("=")
    with pytest.raises(ManifestPropertyError):
        new(properties={**ON, name: value})
    table = new(properties={name: value})
    with pytest.raises(ManifestPropertyError), table.transaction() as changes:
        changes.set_properties(ON)
    assert table.version == 0


def test_the_property_is_refused_while_vectors_are_left() -> None:
    table = new(properties={"delta.enableDeletionVectors": "true"})
    with table.transaction() as changes:
        changes.delete("id = 1")
    with pytest.raises(ManifestPropertyError, match="PURGE"), table.transaction() as changes:
        changes.set_properties({**ON, "delta.enableDeletionVectors": "false"})


def test_a_failure_says_that_the_version_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new(properties=ON)

    def fail(*_: Any) -> None:
        raise StorageRefusedError(table=table.url, operation="write", detail="no space left")

    monkeypatch.setattr(symlink_manifests, "_put", fail)
    with pytest.raises(PostCommitHookFailedError, match="version 1 is committed") as raised:
        table.append(rows(5))
    assert "no space left" in str(raised.value)
    assert (table.version, table.to_arrow(filter="day = 5").num_rows) == (1, 1)


def test_vacuum_leaves_manifests_alone() -> None:
    table = new(partition_by=["day"], properties=ON)
    table.append(rows(1))
    before = manifests(table)
    table.vacuum(0, retention_check=False)
    assert manifests(table) == before


def test_a_text_that_is_the_name_of_nulls_folder_is_refused() -> None:
    """Its rows and those of NULL would be in one manifest, and engines would return NULL for both."""
    texts = pa.table({"id": [1, 2], "p": [HIVE_NULL, None]})
    table = tahoe.Table("memory://t", env=memory_env())
    table.append(texts, partition_by=["p"])
    with pytest.raises(ManifestsWithNullTextError, match="column p"):
        table.generate()
    with pytest.raises(ManifestPropertyError, match="column p"), table.transaction() as changes:
        changes.set_properties(ON)
    assert table.snapshot().version == 0
    table.overwrite(texts.slice(1))
    assert table.generate().written == 1
    with table.transaction() as changes:
        changes.set_properties(ON)
    with pytest.raises(ManifestPropertyError, match="column p"):
        table.append(texts)
    assert table.snapshot().version == 2
    assert table.to_arrow()["p"].to_pylist() == [None]
