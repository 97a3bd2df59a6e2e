"""A cancelled command commits nothing and leaves no file, whoever cancels it, and whether one of its jobs runs at the
moment or none.

What is cancelled and when is arranged by functions of Python's that the commands call anyway, so that nothing here
waits.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from tahoe import DeltaTable
from tahoe.errors import CommandCancelledError
from tahoe.spark.dml import row_changes, write
from tahoe.spark.jvm.cancellation import CommandWatch
from tahoe.table.commit import transaction

pytestmark = pytest.mark.every_spark

GROUP, TAG = "cancelled group", "cancelled-tag"


def _interrupt_all(spark):
    spark.interruptAll()


def _cancel_all_jobs(spark):
    spark.sparkContext.cancelAllJobs()


def _cancel_group(spark):
    spark.sparkContext.cancelJobGroup(GROUP)


def _cancel_tag(spark):
    spark.sparkContext.cancelJobsWithTag(TAG)


CANCELS = [_interrupt_all, _cancel_all_jobs, _cancel_group, _cancel_tag]


@pytest.fixture
def path(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(0, 20, 1, 2).write.format("delta").save(path)
    return path


@pytest.fixture(autouse=True)
def _group_and_tag(spark):
    context = spark.sparkContext
    context.setJobGroup(GROUP, "a group")
    context.addJobTag(TAG)
    yield
    context.removeJobTag(TAG)
    context._jsc.clearJobGroup()


def _append(spark, path):
    spark.range(5).write.format("delta").mode("append").save(path)


def _overwrite(spark, path):
    spark.range(5).write.format("delta").mode("overwrite").save(path)


def _delete(spark, path):
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 3 = 1")


def _delete_by_method(spark, path):
    DeltaTable.forPath(spark, path).delete("id % 3 = 1")


def _update(spark, path):
    spark.sql(f"UPDATE delta.`{path}` SET id = -id WHERE id % 3 = 1")


_SOURCE = "(SELECT id * 7 AS id FROM range(6)) s"


def _merge(spark, path):
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING {_SOURCE} ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED "
        f"THEN INSERT *"
    )


def _merge_by_method(spark, path):
    source = spark.sql(f"SELECT * FROM {_SOURCE}")
    merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"id": "-s.id"}).whenNotMatchedInsertAll().execute()


COMMANDS = [_append, _overwrite, _delete, _delete_by_method, _update, _merge, _merge_by_method]


def _named(function: Callable[..., None]) -> str:
    return function.__name__.strip("_")


def _files(path):
    """The data files and the commits."""
    names = [os.path.join(place, name) for place, _, names in os.walk(path) for name in names]
    return sorted(name for name in names if name.endswith((".json", ".parquet", ".bin")))


def _elsewhere(work: Callable[[], None]) -> None:
    """Somebody who cancels is in another thread."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _before(monkeypatch, owner, name, first):
    """Let something happen once before a function is called."""
    function, done = getattr(owner, name), []

    def called(*arguments, **named):
        if not done:
            done.append(True)
            first()
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("cancel", CANCELS, ids=_named)
@pytest.mark.parametrize("command", [_append, _delete], ids=_named)
def test_whoever_cancels_just_before_the_put_stops_it(spark, path, monkeypatch, command, cancel):
    """No job runs then, of which Spark could tell."""
    files = _files(path)
    _before(monkeypatch, CommandWatch, "before_put", lambda: _elsewhere(lambda: cancel(spark)))
    with pytest.raises(CommandCancelledError):
        command(spark, path)
    assert _files(path) == files


@pytest.mark.parametrize("command", COMMANDS, ids=_named)
def test_a_command_that_is_cancelled_between_two_jobs_comes_to_no_commit(spark, path, monkeypatch, command):
    files, put = _files(path), []
    monkeypatch.setattr(CommandWatch, "before_put", lambda _: put.append(True))
    for owner, name in ((write, "write_rows"), (row_changes.RowChange, "rows")):
        _before(monkeypatch, owner, name, lambda: _elsewhere(lambda: _interrupt_all(spark)))
    with pytest.raises(CommandCancelledError, match="as part of cancellation of all jobs"):
        command(spark, path)
    assert not put
    assert _files(path) == files


def test_a_command_whose_job_is_cancelled_stops_at_once(spark, path, tmp_path):
    """The job waits until it is cancelled, and would wait for a minute."""
    begun = str(tmp_path / "begun")
    files = _files(path)

    def waits(number: int) -> bool:
        open(begun, "w").close()
        time.sleep(60)
        return number == 1

    spark.udf.register("waits", waits, "boolean")

    def cancel() -> None:
        while not os.path.exists(begun):
            time.sleep(0.01)
        spark.interruptAll()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(CommandCancelledError):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE waits(id)")
    canceller.join()
    assert _files(path) == files


def test_an_interrupted_thread_commits_nothing(spark, path, monkeypatch):
    """As servers interrupt it."""
    files = _files(path)
    here = spark._jvm.java.lang.Thread.currentThread()
    _before(monkeypatch, CommandWatch, "before_put", lambda: _elsewhere(here.interrupt))
    try:
        with pytest.raises(CommandCancelledError, match="its thread was interrupted"):
            _delete(spark, path)
    finally:
        spark._jvm.java.lang.Thread.interrupted()
    assert _files(path) == files


def test_what_is_cancelled_too_late_is_committed_and_told_so(spark, path, monkeypatch):
    _before(monkeypatch, transaction, "put_commit", lambda: _elsewhere(lambda: _interrupt_all(spark)))
    _delete(spark, path)
    assert spark.sql(f"SELECT count(*) FROM delta.`{path}`").head()[0] == 13


def test_the_next_command_and_other_sessions_are_not_cancelled(spark, path, monkeypatch):
    _before(monkeypatch, CommandWatch, "before_put", lambda: _elsewhere(lambda: _interrupt_all(spark.newSession())))
    _append(spark, path)
    _elsewhere(lambda: _interrupt_all(spark))
    _append(spark, path)
    assert list(spark.sparkContext.getJobTags()) == [TAG]
    assert spark.sql(f"SELECT count(*) FROM delta.`{path}`").head()[0] == 30
