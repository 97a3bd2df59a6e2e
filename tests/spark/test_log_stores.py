"""A class by which a session commits: `spark.delta.logStore.class`, `spark.delta.logStore.<scheme>.impl`.

The class of these tests keeps the log's text files in a folder of its own, so that what does not ask it finds no table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tahoe.spark.jvm import table_cache
from tahoe.storage.background import finish_background
from tahoe.table.table import Table
from tests.spark import hadoop_file_systems
from tests.spark.any_storage import append, ids, load
from tests.spark.log_stores import ELSEWHERE, calls, install, set_static, static

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The folder in which the class keeps logs."""
    install(spark)
    hadoop_file_systems.install(spark)
    spark.conf.set("logs.folder", str(tmp_path / "logs"))
    calls(spark)
    yield tmp_path / "logs"
    for setting in ("logs.folder", "logs.twice"):
        spark.conf.unset(setting)
    set_static(spark, "fault", "")
    set_static(spark, "partial", False)


@pytest.fixture(params=["file", "strict"])
def url(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a table may be made whose commits go through the class."""
    named = {f"spark.delta.logStore.{request.param}.impl": ELSEWHERE}
    monkeypatch.setattr(table_cache, "_settings_of_contexts", {spark.sparkContext: named})
    return f"{request.param}://{tmp_path}/t {next(_numbers)} ü%41"


def opened(spark: SparkSession, url: str) -> Table:
    """The table, read by nothing that has been read before."""
    return Table(url, env=table_cache.open_table(spark, url).env)


def test_a_life(spark: SparkSession, url: str, folder: Path) -> None:
    """A step of it that went past the class would find no log, or make a second one."""
    if url.startswith("strict:"):
        spark.conf.set("logs.twice", "true")
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "4"}
    spark.range(10).write.format("delta").options(**properties).save(url)
    append(spark.range(10, 20), url)
    spark.sql(f"DELETE FROM delta.`{url}` WHERE id = 3")
    spark.sql(
        f"MERGE INTO delta.`{url}` t USING (SELECT explode(array(4, 100)) id) s ON t.id = s.id "
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    append(spark.range(20, 22), url)
    finish_background()
    expected = [*(n for n in range(22) if n not in (3, 4)), 100]
    assert ids(load(spark, url)) == sorted(expected)
    assert ids(load(spark, url, versionAsOf=1)) == list(range(20))
    assert sorted(opened(spark, url).to_arrow()["id"].to_pylist()) == sorted(expected)
    spark.sql(f"OPTIMIZE delta.`{url}`")
    spark.sql(f"VACUUM delta.`{url}`")
    spark.sql(f"RESTORE delta.`{url}` TO VERSION AS OF 0")
    finish_background()
    assert ids(load(spark, url)) == list(range(10))
    names = {file.name for file in folder.rglob("*") if file.is_file()}
    assert names >= {f"{version:020d}.json" for version in range(5)} | {f"{4:020d}.crc", "_last_checkpoint"}
    in_log = [file.name for file in (Path(url.partition("://")[2]) / "_delta_log").rglob("[!.]*") if file.is_file()]
    assert f"{4:020d}.checkpoint.parquet" in in_log
    assert [name for name in in_log if not name.endswith(".parquet")] == []
    assert static(spark, "open") == 0, "an iterator of lines was not closed"
