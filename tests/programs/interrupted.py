"""A user's program whose commands are interrupted with Ctrl-C, and what comes of them, printed as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.table.commit import transaction

ROWS = 60
FILES = 2


def main(folder: str, handler: str) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    tahoe.enable(spark)
    if handler == "notebook":
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = signal.getsignal(signal.SIGINT)
    begun = Path(folder, "begun")

    def slow(number: int) -> bool:
        begun.touch()
        time.sleep(0.5)
        return number % 2 == 0

    spark.udf.register("slow", slow, "boolean")
    path = f"{folder}/t"
    spark.range(0, ROWS, 1, FILES).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    commands = {
        "DELETE": lambda: spark.sql(f"DELETE FROM delta.`{path}` WHERE slow(id)"),
        "append": lambda: spark.range(ROWS).where("slow(id)").write.format("delta").mode("append").save(path),
        "update": lambda: table.update("slow(id)", {"id": "-1"}),
        "merge": lambda: (
            table.alias("t")
            .merge(spark.range(ROWS).where("slow(id)").alias("s"), "t.id = s.id")
            .whenMatchedDelete()
            .whenNotMatchedInsertAll()
            .execute()
        ),
    }
    found: dict[str, Any] = {
        name: _interrupted(spark, folder, command, _when_rows_are_computed(begun)) for name, command in commands.items()
    }
    found["while it is put"] = _interrupted(spark, folder, lambda: table.delete("id = 1"), _when_it_is_put)
    found["afterwards"] = spark.sql(f"SELECT count(*) FROM delta.`{path}`").head()[0]  # type: ignore[index]
    found["handler"] = signal.getsignal(signal.SIGINT) is given
    print("FOUND", json.dumps(found), flush=True)
    spark.stop()


def _interrupted(
    spark: SparkSession, folder: str, command: Callable[[], Any], arrange: Callable[[], Callable[[], None]]
) -> Any:
    """What a command raises, its notes, the newest version then, how many data files there are, and how many jobs still
    run.
    """
    disarm = arrange()
    try:
        command()
        raised, notes = "nothing", []
    except BaseException as error:
        raised, notes = type(error).__name__, getattr(error, "__notes__", [])
    disarm()
    jobs = len(spark.sparkContext.statusTracker().getActiveJobsIds())
    version, files = _version_and_files(folder)
    until = time.monotonic() + 60
    while (
        files > FILES + version and time.monotonic() < until
    ):  # a task that was killed deletes its file after its job has ended
        time.sleep(0.1)
        version, files = _version_and_files(folder)
    return [raised, len(notes), version, files, jobs]


def _version_and_files(folder: str) -> tuple[int, int]:
    names = [name for _, _, files in os.walk(folder) for name in files]
    version = max(int(name[:20]) for name in names if name.endswith(".json") and name[:20].isdigit())
    return version, sum(name.endswith(".parquet") for name in names)


def _when_rows_are_computed(begun: Path) -> Callable[[], Callable[[], None]]:
    """Interrupt a command a while after its tasks have begun: Spark leaves the file of a task that is killed while it
    opens the file.
    """

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.05)
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGINT)

    def arrange() -> Callable[[], None]:
        begun.unlink(missing_ok=True)
        thread = threading.Thread(target=interrupt)
        thread.start()
        return thread.join

    return arrange


def _when_it_is_put() -> Callable[[], None]:
    put = transaction.put_commit

    def slow_put(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        return put(*arguments)

    transaction.put_commit = slow_put
    return lambda: setattr(transaction, "put_commit", put)


if __name__ == "__main__":
    main(*sys.argv[1:])
