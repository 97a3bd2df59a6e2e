"""Where the time of a one-row append and of a count with a filter goes, in milliseconds per part: `python -m
benchmarks.breakdown`.

The parts are functions of tahoe, timed from outside; the rest is Spark. Values are medians of many runs after a
warm-up.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import Any

from benchmarks.measure import FOLDER, screen, start_spark
from tahoe.spark.api import commands, source
from tahoe.spark.dml import write
from tahoe.spark.reading import planning, scan
from tahoe.spark.writing import data_writer

RUNS = 40

APPEND = {
    "plan the write: read new commits, check schema and rules": (write, "plan_write"),
    "read the session settings and options": (write, "write_options"),
    "schema of the data, and whether its query reads the table": (write, "_request"),
    "store assignment": (write, "rows_for_files"),
    "Spark's job: one file": (data_writer, "write_files"),
    "statistics from the footer": (data_writer, "_statistics"),
    "relation of the new version": (commands.planning, "relation"),
    "refresh caches": (commands, "recache"),
}
COUNT = {
    "analysis: the newest version and its relation": (planning, "relation"),
    "planning: choose the files": (source.planning, "plan_scan"),
    "message with the files to the JVM": (scan, "files_message"),
}


class Clock:
    """Times functions, by label."""

    def __init__(self, parts: dict[str, tuple[ModuleType, str]]) -> None:
        self.parts = parts
        self.spent: dict[str, float] = defaultdict(float)

    def __enter__(self) -> Clock:
        for label, (module, name) in self.parts.items():
            setattr(module, name, self._timed(label, getattr(module, name)))
        return self

    def __exit__(self, *_: object) -> None:
        for module, name in self.parts.values():
            setattr(module, name, getattr(module, name).__wrapped__)

    def _timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[label] += time.perf_counter() - began

        timed.__wrapped__ = function  # type: ignore[attr-defined]
        return timed


def profile(what: str, parts: dict[str, tuple[ModuleType, str]], action: Callable[[], object]) -> None:
    for _ in range(10):
        action()
    rounds: list[dict[str, float]] = []
    for _ in range(RUNS):
        with Clock(parts) as clock:
            began = time.perf_counter()
            action()
            whole = time.perf_counter() - began
        rounds.append(
            {
                **clock.spent,
                "total": whole,
                "Spark itself, and calls between Python and the JVM": whole - sum(clock.spent.values()),
            }
        )
    console = screen()
    console.print(f"\n| {what} | ms |\n| --- | ---: |")
    for label in [*parts, "Spark itself, and calls between Python and the JVM", "total"]:
        milliseconds = statistics.median(found.get(label, 0.0) for found in rounds) * 1000
        console.print(f"| {label} | {milliseconds:.1f} |")


def main() -> None:
    spark = start_spark()
    path = str(FOLDER / "profile")
    shutil.rmtree(path, ignore_errors=True)
    profile("append one row", APPEND, lambda: spark.range(1).write.format("delta").mode("append").save(path))
    profile("count with a filter", COUNT, lambda: spark.read.format("delta").load(path).where("id >= 0").count())
    shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
