"""DELETE, UPDATE and MERGE of a process that dies before or after any step on the storage: the table is as it was, or
as it should be.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table
from tahoe.spark.writing import data_writer
from tahoe.spark.writing.data_writer import Written
from tahoe.storage.background import finish_background
from tahoe.storage.local import LocalStore
from tahoe.table.verify.check import check_version
from tests.spark.builders import COPIES, VECTORS, make

FEED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}


def delete(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).delete("id % 3 = 0")


def update(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).update("id % 3 = 0", {"amount": "-amount"})


def merge(spark: SparkSession, path: str) -> None:
    source = spark.range(1990, 2010).selectExpr("id", "-1L as amount").alias("s")
    merged = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id")
    merged.whenMatchedUpdateAll("s.id % 2 = 0").whenMatchedDelete().whenNotMatchedInsertAll().execute()


class Death(BaseException):
    """No code of ours expects it."""


class Steps:
    """The steps that change the storage. From `last` on none is taken; it itself may be."""

    def __init__(self, last: int | None = None, *, is_taken: bool = False) -> None:
        self.last, self.is_taken, self.count, self.committed = last, is_taken, 0, False

    @contextmanager
    def watched(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in (
                (LocalStore, "put"),
                (LocalStore, "put_if_absent"),
                (LocalStore, "delete"),
                (data_writer, "write_files"),
                (data_writer, "delete_files"),
                (Written, "discard"),
            ):
                patch.setattr(owner, name, self._step(name, getattr(owner, name)))
            yield

    def _step(self, name: str, take: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return take(*arguments, **named)  # what follows a commit, in its own time
            number, self.count = self.count, self.count + 1
            if self.last is None or number < self.last:
                return take(*arguments, **named)
            if number == self.last and self.is_taken:
                take(*arguments, **named)
                self.committed = name == "put_if_absent"
            raise Death

        return step


def rows(path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in Table(path).to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("command", "properties"),
    [
        pytest.param(delete, VECTORS, id="delete"),
        pytest.param(delete, COPIES | FEED, id="delete by copying, with a feed"),
        pytest.param(update, VECTORS | FEED, id="update, with a feed"),
        pytest.param(merge, VECTORS, id="merge"),
        pytest.param(merge, COPIES | FEED, id="merge by copying, with a feed"),
    ],
)
def test_a_death_at_any_step_loses_nothing(
    spark: SparkSession,
    path: str,
    tmp_path: Path,
    command: Callable[[SparkSession, str], None],
    properties: dict[str, str],
) -> None:
    make(spark.range(0, 2000, 1, 2).selectExpr("id", "id * 10 as amount"), path, properties)
    finish_background()
    numbers = iter(range(1000))

    def copy() -> str:
        return str(shutil.copytree(path, tmp_path / f"copy-{next(numbers)}"))

    whole, all_steps = copy(), Steps()
    with all_steps.watched():
        command(spark, whole)
        steps = all_steps.count
        finish_background()
    before, after = rows(path), rows(whole)
    assert before != after
    endings = set()
    for last in range(steps):
        for is_taken in (False, True):
            died, step = copy(), Steps(last, is_taken=is_taken)
            with step.watched(), pytest.raises(Death):
                command(spark, died)
            found = rows(died)
            assert found == (after if step.committed else before), f"step {last}, taken: {is_taken}"
            assert list(check_version(Table(died).snapshot())) == []
            if not step.committed:
                command(spark, died)
                assert rows(died) == after
            endings.add(step.committed)
    assert endings == {False, True}
