"""How fast are streams from a table into a table? How soon a row arrives, how fast a table is copied, what planning
costs.

Each side has a Spark session of the same version, in its own process. Where no file needs to be read, the files of the
logs do not exist.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import tahoe
from benchmarks.beside_reference import ENVIRONMENTS, FILES, PEER, Side, both, checkpointed_table, compared, turns
from benchmarks.compaction import small_files
from benchmarks.logs import write_commits
from benchmarks.measure import FOLDER, ROUNDS, SCALE_FACTOR, Comparison, report

APPENDS = 25  # in each of two runs of a query
COMMITS = 1000
TRIGGERS = 50
UPDATES, UPDATED_ROWS = 100, 10_000
FEED = "readChangeFeed='true', startingVersion='2'"

SIDE = "import_module('benchmarks.streams_side')"
COPY = "spark.read.format('delta').load(source).write.format('delta').save(sink)"


def run() -> list[Comparison]:
    folder = FOLDER / "streams"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with both() as sides:
        found = [
            *_arrival(sides, folder),
            *_backfill(sides, folder),
            _feed(sides, folder),
            _commits_behind(sides, folder),
        ]
    found += _a_million_files(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return found


# --- a row arrives


def _arrival(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    """Each side runs its query twice. A neutral writer appends a row, and waits until the query has written it."""
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for side in (*sides, *sides[::-1]):
        times[side.name] += _arrivals(side, folder / f"arrival-{side.name}-{len(times[side.name])}")
    found = list(times.values())
    worst = [statistics.quantiles(side, n=100)[-1] for side in found]
    what = (
        "Arrival: from the commit of an appended row to the commit with this row in the sink, by the times of both "
        "files"
    )
    return [
        compared("a row arrives, median", found, 0.8, what=what),
        compared("a row arrives, median, in seconds", [found[0], [1.0]], 1.0, "one second", what=what),
        compared(
            "a row arrives, 99th percentile", [[worst[0]], [statistics.median(found[0])]], 2.5, "its median", what=what
        ),
        compared("a row arrives, 99th percentile", [[worst[0]], [worst[1]]], None, what=what),
    ]


def _arrivals(side: Side, folder: Path) -> list[float]:
    source, sink = folder / "source", folder / "sink"
    table = tahoe.Table(str(source))
    table.append(pa.table({"id": [0]}))
    side.ask(
        f"{SIDE}.begin(spark, source, sink, checkpoint)",
        source=str(source),
        sink=str(sink),
        checkpoint=str(folder / "checkpoint"),
    )
    times = []
    for number in range(APPENDS + 3):
        before = _versions(sink)
        version = table.append(pa.table({"id": [number]}))
        while _versions(sink) == before:
            time.sleep(0.002)
        times.append(_committed_at(sink, _versions(sink) - 1) - _committed_at(source, version))
        time.sleep(0.05 * (number % 3))
    side.ask(f"{SIDE}.end()")
    return times[3:]


def _versions(table: Path) -> int:
    return len(list((table / "_delta_log").glob("[0-9]*.json")))


def _committed_at(table: Path, version: int) -> float:
    return (table / "_delta_log" / f"{version:020}.json").stat().st_mtime


# --- a table is copied


def _backfill(sides: tuple[Side, Side], folder: Path) -> list[Comparison]:
    source = str(small_files(sides[1], is_deleted=False))

    def copy(side: Side, code: str) -> float:
        sink = folder / f"copy-{side.name}"
        for old in (sink, Path(f"{sink}-checkpoint")):
            shutil.rmtree(old, ignore_errors=True)
        return side.ask(code, source=source, sink=str(sink))

    rounds = min(ROUNDS, 3)
    stream = f"{SIDE}.backfill(spark, source, sink)"
    streamed = turns(sides, lambda side: copy(side, stream), rounds)
    pairs = [(copy(sides[0], stream), copy(sides[0], COPY)) for _ in range(rounds)]
    return [
        compared("copy lineitem in 1,000 files by a stream (AvailableNow)", streamed, 0.7),
        compared(
            "copy lineitem in 1,000 files by a stream (AvailableNow)",
            list(zip(*pairs, strict=True)),
            1.25,
            "a batch copy",
        ),
    ]


# --- a change data feed is copied


def _feed(sides: tuple[Side, Side], folder: Path) -> Comparison:
    source = str(folder / "fed")
    rows = UPDATES * UPDATED_ROWS
    sides[0].ask(
        f"spark.range(0, {rows}, 1, {UPDATES}).withColumn('n', F.lit(0)).write.format('delta').save(path)", path=source
    )
    sides[0].ask(
        "spark.sql(f'ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)')", path=source
    )
    for start in range(0, rows, UPDATED_ROWS):
        update = (
            f"spark.sql(f'UPDATE delta.`{{path}}` SET n = n + 1 WHERE id BETWEEN {start} AND "
            f"{start + UPDATED_ROWS - 1}').collect()"
        )
        sides[0].ask(update, path=source)

    def copy(side: Side) -> float:
        sink = folder / f"fed-{side.name}"
        for old in (sink, Path(f"{sink}-checkpoint")):
            shutil.rmtree(old, ignore_errors=True)
        seconds = side.ask(f"{SIDE}.backfill(spark, source, sink, {FEED})", source=source, sink=str(sink))
        changes = tahoe.Table(str(sink)).to_arrow(["id"]).num_rows
        assert changes == 2 * rows, f"{side.name} has written {changes} changes"
        return seconds

    question = f"copy the change data feed of {UPDATES} commits that update {UPDATED_ROWS:,} rows each, by a stream"
    return compared(question, turns(sides, copy, min(ROUNDS, 3)), 0.7)


# --- a batch is planned


def _commits_behind(sides: tuple[Side, Side], folder: Path) -> Comparison:
    path = folder / "behind"
    write_commits(path, COMMITS + 1)

    def plan(side: Side) -> float:
        code = f"{SIDE}.planned(spark, source, checkpoint, startingVersion='1')"
        side.ask(code, source=str(path), checkpoint=str(folder / f"behind-{side.name}"))
        return _number(side, 1)

    what = "The time of the source in a batch: to find its end, and its files"
    return compared(f"plan the batch after {COMMITS:,} commits", turns(sides, plan), 0.3, what=what)


def _a_million_files(folder: Path) -> list[Comparison]:
    """The first batch in a new process, which opens the table; then triggers without anything new."""
    table = checkpointed_table(FILES)
    first: list[list[float]] = [[], []]
    memory: list[list[float]] = [[], []]
    nothing: list[list[float]] = [[], []]
    for _ in range(min(ROUNDS, 3)):
        for position, name in enumerate(ENVIRONMENTS):
            side = Side(name)
            side.ask("spark.range(10).where('id > 3').collect()")
            names = {"source": str(table), "checkpoint": str(folder / "million")}
            side.ask(f"{SIDE}.planned(spark, source, checkpoint, maxFilesPerTrigger='1000')", **names)
            first[position].append(_number(side))
            side.ask("[[peak_megabytes_of_all()]]")
            memory[position].append(_number(side))
            side.ask(f"{SIDE}.idle(spark, source, checkpoint, {TRIGGERS})", **names)
            nothing[position].append(1000 * statistics.median(_column(side)))
            side.stop()
    what = f"Streams from {FILES:,} files: the batch is planned and not read, so that no file needs to be there"
    batch, trigger = (
        f"first batch of {FILES:,} files, 1,000 per trigger",
        f"trigger without anything new, {FILES:,} files",
    )
    return [
        compared(batch, first, 0.2, what=what),
        _in_units(f"{batch}: memory", PEER, memory, "MB", 0.5),
        _in_units(trigger, PEER, nothing, "ms", None),
        _in_units(trigger, "5 ms", [nothing[0], [5.0]], "ms", 1.0),
    ]


def _in_units(
    question: str, peer: str, numbers: Sequence[Sequence[float]], unit: str, goal: float | None
) -> Comparison:
    return Comparison(question=question, peer=peer, ours=numbers[0], theirs=numbers[1], unit=unit, goal=goal)


def _column(side: Side, column: int = 0) -> list[float]:
    assert side.rows is not None
    return [float(row[column]) for row in side.rows]


def _number(side: Side, column: int = 0) -> float:
    return _column(side, column)[0]


if __name__ == "__main__":
    print(f"lineitem at scale factor {SCALE_FACTOR}")
    report(*run())
