"""Erasing rows: no byte below the table's folder has them afterwards, whatever the table's layout, and a search finds
what is left.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe.errors import AppendOnlyTableError, ErasureHeldByTagsError
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.types.partitions import ascii_folder, partition_folder
from tahoe.storage import system_env
from tahoe.storage.background import finish_background
from tahoe.table.cleanup.traces import Trace, search_folder
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Severity
from tests import sample
from tests.table.builders import memory_env
from tests.table.dying import deaths

GRACE = "Grace Murray Hopper"
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "name": ["Ada Lovelace", GRACE, "Edsger Dijkstra"],
        "address": [{"city": "London"}, {"city": "Arlington"}, {"city": "Nuenen"}],
        "notes": [["mathematician"], ["admiral", "of the navy"], ["of the structure"]],
    }
)

LAYOUTS = {
    "copies": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "change feed": {"delta.enableChangeDataFeed": "true"},
    "change feed, vectors": {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
    "v2 checkpoints": {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"},
    "row tracking": {"delta.enableRowTracking": "true"},
    "in-commit timestamps": {"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "2"},
    "column mapping": {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
    "typed statistics": {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpointInterval": "1"},
}


def values_in(folder: str) -> str:
    """Everything below a folder as text: the bytes of all files, and the rows of all Parquet files."""
    found = []
    for path in glob.glob(f"{folder}/**", recursive=True, include_hidden=True):
        if os.path.isfile(path):
            found += [path, Path(path).read_bytes().decode("latin-1")]
            if path.endswith(".parquet"):
                found.append(str(pq.ParquetFile(path).read().to_pylist()))
    return "\n".join(found)


@pytest.mark.parametrize("partition_by", [[], ["name"]], ids=["whole", "by name"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_byte_has_the_erased_rows(tmp_path, layout, partition_by):
    folder = str(tmp_path / "t")
    table = tahoe.Table(folder)
    table.append(ROWS, properties=LAYOUTS[layout], partition_by=partition_by)
    table.update({"id": "id + 10"}, "id > 0")
    table.create_checkpoint()
    table.delete("name LIKE 'Ada%'")  # an earlier DELETE, whose rows are still in files
    table.compact_logs(0, 1)
    assert GRACE in values_in(folder).replace("%20", " ")
    report = table.erase(f"name = '{GRACE}'")
    assert report.is_proven, report.search
    assert (report.rows, report.values) == (1, 4)
    left = values_in(folder).replace("%20", " ")
    assert [text for text in (GRACE, "Arlington", "admiral", "of the navy", "Lovelace") if text in left] == []
    assert table.to_arrow(["id", "name"]).to_pylist() == [{"id": 13, "name": "Edsger Dijkstra"}]
    assert len(glob.glob(f"{folder}/_delta_log/*.json")) <= 2  # the commit, and the checkpoint of a V2 table
    assert [found for found in check_version(table.snapshot()) if found.severity is Severity.ERROR] == []
    table.append(ROWS.slice(0, 1))
    assert tahoe.Table(folder).count() == 2


def test_dropped_columns_are_erased_with_the_rows(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS, properties={"delta.columnMapping.mode": "name"})
    with table.transaction() as changes:
        changes.drop_columns(["notes"])
    table.erase("id = 2", search=["admiral", "mathematician"])
    assert "mathematician" not in values_in(str(tmp_path))


def test_tags_are_named_with_their_files_and_nothing_is_changed(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS)
    table.tag("q3")
    version = table.version
    with pytest.raises(ErasureHeldByTagsError, match=r"q3 of version 0 \(1 file of [\d,]+ bytes\)"):
        table.erase("id = 2")
    assert (table.version, table.count()) == (version, 3)
    table.untag("q3")
    assert table.erase("id = 2").is_proven


def test_a_row_that_only_earlier_versions_have_is_not_told_as_erased(tmp_path):
    """Neither the newest version nor that of the tag has it, but its files and the log do."""
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS)
    table.delete("id = 2")
    table.tag("q3")
    for dry_run in (True, False):
        with pytest.raises(ErasureHeldByTagsError, match="q3"):
            table.erase("id = 2", dry_run=dry_run)


def test_a_table_that_is_only_appended_to_is_left_as_it_is(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS, properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyTableError):
        table.erase("id = 2")
    assert table.version == 0


def test_a_dry_run_changes_nothing(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS)
    finish_background()
    before = values_in(str(tmp_path))
    report = table.erase("id = 2", dry_run=True)
    assert (report.rows, report.is_proven, values_in(str(tmp_path))) == (1, False, before)


def test_texts_that_other_rows_have_are_not_searched_for_and_short_ones_neither(tmp_path):
    table = tahoe.Table(str(tmp_path))
    table.append(
        pa.table(
            {"id": [1, 2], "name": [GRACE, "Ada"], "land": ["US", "UK"], "town": ["Arlington", "Arlington Heights"]}
        )
    )
    report = table.erase("id = 1")
    assert (report.is_proven, report.values, report.values_left_out) == (True, 1, 2)


def test_a_file_that_no_commit_names_stays_while_it_is_young_and_the_search_finds_it(tmp_path):
    """It may be that of a writer at work. Who knows that none is may delete it."""
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS)
    pq.write_table(ROWS, tmp_path / "part-left-behind.parquet")
    report = table.erase("id = 2")
    assert not report.is_proven
    assert {trace.file for trace in report.search.traces} == {"part-left-behind.parquet"}
    assert "column name" in {trace.place for trace in report.search.traces}
    again = table.erase("id = 2", search=[GRACE], retention_check=False)
    assert again.is_proven
    assert GRACE not in values_in(str(tmp_path))


def test_an_erasure_that_died_anywhere_may_be_run_again():
    """Whatever was done before it died, the next run does the rest, and the table has its other rows at any time."""

    def world():
        env = memory_env()
        table = tahoe.Table("memory://erased", env=env)
        table.append(ROWS, properties={"delta.enableDeletionVectors": "true", "delta.checkpointPolicy": "v2"})
        table.create_checkpoint()
        return env

    died = 0
    every = 5 * sample.step(9)
    for env in deaths(lambda env: tahoe.Table("memory://erased", env=env).erase("id = 2"), world, every=every):
        died += 1
        table = tahoe.Table("memory://erased", env=env)
        assert {1, 3} <= set(table.to_arrow(["id"])["id"].to_pylist())
        report = table.erase("id = 2", search=[GRACE])
        assert report.is_proven, (died, report.search)
        assert table.to_arrow(["id"])["id"].to_pylist() == [1, 3]
    assert died * every > 100


# --- the search


def texts(*rows: str) -> pa.Table:
    return pa.table({"text": list(rows)})


PLACES = {
    "a Parquet file": lambda at: pq.write_table(texts("x", GRACE), at / "p.parquet"),
    "a compressed Parquet file": lambda at: pq.write_table(
        texts(*([GRACE] * 500)), at / "p.parquet", compression="zstd"
    ),
    "a dictionary": lambda at: pq.write_table(
        pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["x", GRACE]))}), at / "p.parquet"
    ),
    "other encodings": lambda at: pq.write_table(
        texts("x", GRACE),
        at / "p.parquet",
        use_dictionary=False,
        column_encoding="DELTA_BYTE_ARRAY",
        compression="zstd",
    ),
    "a nested column": lambda at: pq.write_table(
        pa.table(
            {"s": [{"m": [("k", [GRACE])]}]},
            schema=pa.schema({"s": pa.struct({"m": pa.map_(pa.string(), pa.list_(pa.string()))})}),
        ),
        at / "p.parquet",
        write_statistics=False,
        compression="zstd",
    ),
    "bytes": lambda at: pq.write_table(pa.table({"b": [f"<{GRACE}>".encode()]}), at / "p.parquet", compression="zstd"),
    "metadata of a Parquet file": lambda at: pq.write_table(
        texts("x").replace_schema_metadata({"by": GRACE}), at / "p.parquet"
    ),
    "statistics": lambda at: (at / "0.json").write_text(
        '{"add":{"stats":"{\\"minValues\\":{\\"name\\":\\"Grace Murray Hopper\\"}}"}}'
    ),
    "a folder": lambda at: (
        (at / "name=Grace%20Murray%20Hopper").mkdir() or (at / "name=Grace%20Murray%20Hopper" / "x").write_text("")
    ),
    "an empty folder": lambda at: (at / "name=Grace%20Murray%20Hopper" / "day=1").mkdir(parents=True),
    "the end of a large file": lambda at: (at / "log").write_bytes(b"." * ((32 << 20) - 5) + GRACE.encode()),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_search_finds_a_value_in(tmp_path, place):
    pq.write_table(texts("nobody"), tmp_path / "other.parquet")
    PLACES[place](tmp_path)
    found = search_folder(system_env(str(tmp_path), None).store, {GRACE: "name"})
    assert found.traces
    assert "other.parquet" not in {trace.file for trace in found.traces}
    assert not search_folder(system_env(str(tmp_path), None).store, {"Katherine Johnson": "name"}).traces


@pytest.mark.parametrize(
    "text", ['say "hi" to\nall', "Gräfin Ähre", "back\\slash!", "名前は長い", "a+b(c)[d]{4}*", "x" * 50]
)
def test_the_search_finds_texts_as_the_log_escapes_them(tmp_path, text):
    table = tahoe.Table(str(tmp_path))
    table.append(texts(text, "other"))
    found = search_folder(table.env.store, {text: "text"})
    assert {trace.file.partition("/")[0] for trace in found.traces} >= {"_delta_log"}
    assert table.erase("text <> 'other'").is_proven


@pytest.mark.parametrize("text", ["Zoë & Co. (Köln)", "a:b + c=d, 100%", "名前 [x] {y}^", "back\\slash ~ 'q'"])
@pytest.mark.parametrize("folder", [partition_folder, ascii_folder])
def test_the_search_finds_texts_in_names_of_folders_and_in_paths(tmp_path, text, folder):
    """Folders escape some characters of a text, and others not."""
    name = folder(["name"], {"name": text})
    (tmp_path / name).mkdir()
    (tmp_path / "log").write_text(encode_path(f"{name}/part-0"))
    found = search_folder(system_env(str(tmp_path), None).store, {text: "name"})
    assert {(trace.file, trace.place) for trace in found.traces} == {(name, "name of the folder"), ("log", "bytes")}


def test_a_folder_that_stays_is_told_with_its_name(tmp_path):
    """A writer at work may have made it, so it stays until it is older than the retention; the proof must not pass over
    its name.
    """
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": [1, 2], "name": [GRACE, "Katherine Johnson"]}), partition_by=["name"])
    folder = next(path for path in tmp_path.iterdir() if "Grace" in path.name)
    (folder / "day=1").mkdir()
    erased = table.erase("name LIKE 'Grace%'")
    assert [(trace.file, trace.place) for trace in erased.search.traces] == [(folder.name, "name of the folder")]
    assert not erased.is_proven
    assert table.erase("name LIKE 'Grace%'", search=[GRACE], retention_check=False).is_proven


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    found = search_folder(system_env(str(tmp_path), None).store, {GRACE: "name"})
    assert list(found.unread) == ["broken.parquet"]
    assert found.traces == ()
    assert Trace(file="a", place="bytes", value_of="name") not in found.traces
