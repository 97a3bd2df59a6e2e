"""Both implementations commit by the same class of a user, on one table: no commit is lost, and none is made twice, or
past the class, which keeps a journal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tahoe.spark.jvm import table_cache
from tahoe.spark.jvm.gateway import Gateway
from tahoe.storage.background import finish_background
from tests.interop.reference import Reference, check_installed
from tests.spark.any_storage import append, ids, load
from tests.spark.log_stores import IN_PLACE, SOURCES

SETTING = "spark.delta.logStore.file.impl"


@pytest.fixture(scope="module")
def reference(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    """A reference that commits by the class."""
    check_installed()
    folder = tmp_path_factory.mktemp("logs")
    jar = folder / "logs.jar"
    with ZipFile(Gateway(spark).compiled_jar(SOURCES, IN_PLACE)) as compiled, ZipFile(jar, "w") as own:
        for name in compiled.namelist():
            if not name.startswith("io/"):  # the reference has its own
                own.writestr(name, compiled.read(name))
    reference = Reference([str(jar)], {SETTING: IN_PLACE, "spark.hadoop.logs.journal": str(folder / "journal")})
    spark.conf.set("logs.journal", str(folder / "journal"))
    yield reference
    spark.conf.unset("logs.journal")
    reference.close()


@pytest.fixture(autouse=True)
def by_the_class(
    spark: SparkSession, reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Afterwards every commit is in the journal, once."""
    assert reference.process.poll() is None
    journal = Path(spark.conf.get("logs.journal", None) or "")
    journal.write_text("")
    monkeypatch.setattr(table_cache, "_settings_of_contexts", {spark.sparkContext: {SETTING: IN_PLACE}})
    yield
    finish_background()
    written, in_log = journal.read_text().splitlines(), (tmp_path / "t" / "_delta_log").iterdir()
    assert commits(written) == commits(file.name for file in in_log)


def commits(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.removesuffix(".json").isdigit())


def theirs(reference: Reference, path: Path) -> list[int]:
    return sorted(reference.read(path)["id"].to_pylist())


@pytest.mark.parametrize("properties", [{}, {"delta.checkpointPolicy": "v2"}])
def test_in_turn(reference: Reference, spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    """Commits, checkpoints, vectors, checksums and log cleanup of one are the other's."""
    path, table = tmp_path / "t", f"delta.`{tmp_path}/t`"
    given = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "3", **properties}
    spark.range(10).coalesce(1).write.format("delta").options(**given).save(str(path))
    expected = list(range(10))
    for number in range(10, 18, 2):
        reference.write(path, pa.table({"id": pa.array([number], pa.int64())}))
        append(spark.range(number + 1, number + 2), str(path))
        expected += [number, number + 1]
        assert theirs(reference, path) == ids(load(spark, str(path))) == expected
    reference.run(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"DELETE FROM {table} WHERE id = 4")
    reference.run(f"OPTIMIZE {table}")
    spark.sql(f"MERGE INTO {table} t USING (SELECT 5L id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    expected = [number for number in expected if number not in (3, 4, 5)]
    assert theirs(reference, path) == ids(load(spark, str(path))) == expected
    spark.sql(f"VACUUM {table}")
    spark.sql(f"RESTORE {table} TO VERSION AS OF 0")
    assert theirs(reference, path) == ids(load(spark, str(path))) == list(range(10))


def test_a_table_of_the_reference(reference: Reference, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    reference.write(path, pa.table({"id": pa.array([1, 2], pa.int64())}))
    append(spark.range(3, 5), str(path))
    assert theirs(reference, path) == ids(load(spark, str(path))) == [1, 2, 3, 4]


def test_at_the_same_time(reference: Reference, spark: SparkSession, tmp_path: Path) -> None:
    path, count, failures = tmp_path / "t", 8, list[BaseException]()
    append(spark.range(0), str(path))

    def write() -> None:
        try:
            for number in range(count):
                append(spark.range(100 + number, 101 + number), str(path))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    for number in range(count):
        reference.write(path, pa.table({"id": pa.array([number], pa.int64())}))
    thread.join()
    assert failures == []
    expected = [*range(count), *range(100, 100 + count)]
    assert theirs(reference, path) == ids(load(spark, str(path))) == expected
    versions = [row.version for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()]
    assert sorted(versions) == list(range(2 * count + 1))
