"""What is asked: queries, loads, changes, upkeep, streams and the first result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tahoe_race.tables import copy_of, queries

GROUPS = ("tpch", "tpcds", "load", "dml", "append", "optimize", "vacuum", "stream", "first")
SHARES = {"0.1 %": 1000, "1 %": 100, "10 %": 10}
KEYS = ["l_orderkey", "l_linenumber"]
SUMS = ["l_orderkey", "l_linenumber", "l_quantity"]

Prepare = Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class Question:
    """One thing that engines are asked to do.

    Attributes:
        group: the chart that it is in, one of `GROUPS`.
        do: the operation of a side.
        prepare: makes what one attempt of an engine needs, untimed, and gives the arguments of `do`.
        changes: whether the answer is the table at `path` afterwards, instead of rows.
    """

    name: str
    group: str
    do: str
    prepare: Prepare
    changes: bool = False


@dataclass(frozen=True)
class Course:
    """The tables of a race.

    Attributes:
        folder: with the copies that engines change.
        homes: benchmarks with their queries, by name.
        source: lineitem as Parquet; `lineitem` as a Delta table; `small` the same in many small files; `compacted`
            after OPTIMIZE, with the small files still there.
        changes: with Parquet files: what MERGE takes, by share, `one` row for appends, and `parts` for a stream.
    """

    folder: Path
    homes: dict[str, Path]
    source: Path
    lineitem: Path
    small: Path
    compacted: Path
    changes: Path

    def on_copy(self, table: Path | None = None, **arguments: Any) -> Prepare:
        """What is asked about a fresh copy of a table, by default lineitem."""

        def prepare(engine: str) -> dict[str, Any]:
            return {"path": copy_of(table or self.lineitem, self.folder / "copies" / engine), **arguments}

        return prepare

    def nothing(self, engine: str) -> str:
        """A path where there is no table."""
        path = self.folder / "copies" / engine
        shutil.rmtree(path, ignore_errors=True)
        return str(path)

    def load(self, engine: str) -> dict[str, Any]:
        return {"source": str(self.source), "path": self.nothing(engine)}

    def stream(self, engine: str) -> dict[str, Any]:
        path = self.nothing(engine)
        return {"source": str(self.changes / "parts"), "path": path, "checkpoint": f"{path}/_checkpoint"}


def always(**arguments: Any) -> Prepare:
    """The same arguments for every engine and attempt."""
    return lambda _: arguments


def questions(course: Course, groups: list[str]) -> Iterator[Question]:
    """The questions of some groups, in order."""
    for benchmark in ("tpch", "tpcds"):
        if benchmark in groups:
            for number, text in queries(course.homes[benchmark]).items():
                yield Question(f"{benchmark} {number}", benchmark, "query", always(text=text))
    if "load" in groups:
        yield Question("load lineitem from Parquet", "load", "load", course.load, changes=True)
    if "dml" in groups:
        yield from _changes(course)
    if "append" in groups:
        appends = course.on_copy(source=str(course.changes / "one"), times=20)
        yield Question("20 appends of one row", "append", "append", appends, changes=True)
    if "optimize" in groups:
        yield Question("OPTIMIZE of 200 files", "optimize", "optimize", course.on_copy(course.small), changes=True)
    if "vacuum" in groups:
        yield Question("VACUUM of 200 files", "vacuum", "vacuum", course.on_copy(course.compacted), changes=True)
    if "stream" in groups:
        yield Question("a stream of 20 batches", "stream", "stream", course.stream, changes=True)
    if "first" in groups:
        yield Question("first result, from a new process", "first", "first", always(path=str(course.lineitem)))


def _changes(course: Course) -> Iterator[Question]:
    for share, step in SHARES.items():
        where = f"l_orderkey % {step} = 7"
        yield Question(f"DELETE of {share}", "dml", "delete", course.on_copy(where=where), changes=True)
        change = course.on_copy(where=where, column="l_quantity", value="l_quantity + 1")
        yield Question(f"UPDATE of {share}", "dml", "update", change, changes=True)
        merged = course.on_copy(source=str(course.changes / f"merge-{step}"), on=KEYS)
        yield Question(f"MERGE of {share}", "dml", "merge", merged, changes=True)
