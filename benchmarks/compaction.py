"""How fast is OPTIMIZE? A thousand files of lineitem become one; then there is nothing to do, also in a table of
100,000 files.

Beside the reference each side has a Spark session of the same version, in its own process. delta-rs and tahoe without
Spark take turns in this process.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deltalake import DeltaTable

import tahoe
from benchmarks.beside_reference import Side, both, compared, turns
from benchmarks.logs import write_checkpointed_table
from benchmarks.measure import FOLDER, ROUNDS, SCALE_FACTOR, Comparison, compare, lineitem, report

FILES = 1000
LARGE_FILES = 100_000
OPTIMIZE = "spark.sql(f'OPTIMIZE delta.`{path}`').collect()"
COUNT = "spark.sql(f'SELECT count(*), sum(l_quantity) FROM delta.`{path}`').collect()"
WRITE = (
    "spark.read.parquet(source).repartition(int(files)).write.format('delta').option('delta.enableDeletionVectors', "
    "'true').save(path)"
)
DELETE = "spark.sql(f'DELETE FROM delta.`{path}` WHERE l_orderkey % 10 = 7').collect()"


def run() -> list[Comparison]:
    with both() as sides:
        plain, deleted = (small_files(sides[1], is_deleted) for is_deleted in (False, True))
        found = [
            _beside_reference(sides, plain, f"compact {FILES} files"),
            _beside_reference(sides, deleted, f"compact {FILES} files, 10 % of the rows deleted by vectors"),
            _nothing_to_do(sides),
            _nothing_to_do_in_a_large_table(sides),
        ]
    return [*found, _beside_delta_rs(plain)]


def small_files(reference: Side, is_deleted: bool) -> Path:
    """The table to compact; made once, by the reference, so that all can read it."""
    path = FOLDER / f"small-files-sf{SCALE_FACTOR}{'-deleted' if is_deleted else ''}"
    done = path.with_suffix(".done")
    if not done.exists():
        shutil.rmtree(path, ignore_errors=True)
        reference.ask(WRITE, source=lineitem(), path=str(path), files=str(FILES))
        if is_deleted:
            reference.ask(DELETE, path=str(path))
        done.touch()
    return path


def _copy(table: Path, name: str) -> str:
    """A copy of a table that shares its data files."""
    copy = FOLDER / f"compact-{name}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=lambda source, target: _link(Path(source), Path(target)))
    return str(copy)


def _link(source: Path, target: Path) -> None:
    shutil.copy2(source, target) if "_delta_log" in source.parts else os.link(source, target)


def _beside_reference(sides: tuple[Side, Side], table: Path, question: str) -> Comparison:
    def ask(side: Side) -> float:
        path = _copy(table, side.name)
        seconds = side.ask(OPTIMIZE, path=path)
        side.ask(COUNT, path=path)
        return seconds

    times = turns(sides, ask, rounds=min(ROUNDS, 3))
    assert sides[0].rows == sides[1].rows, "both sides must answer alike"
    return compared(question, times, 0.35)


def _nothing_to_do(sides: tuple[Side, Side]) -> Comparison:
    """On the tables that the comparisons before have left."""
    times = turns(sides, lambda side: side.ask(OPTIMIZE, path=str(FOLDER / f"compact-{side.name}")))
    return compared("OPTIMIZE with nothing to do", times, 0.1)


def _nothing_to_do_in_a_large_table(sides: tuple[Side, Side]) -> Comparison:
    """The files of the log do not exist: whoever opens one fails."""
    path = FOLDER / "large"
    shutil.rmtree(path, ignore_errors=True)
    write_checkpointed_table(path, LARGE_FILES)
    for side in sides:
        side.ask("spark.conf.set('spark.databricks.delta.optimize.minFileSize', '1')")
    return compared(
        f"OPTIMIZE with nothing to do, {LARGE_FILES:,} files",
        turns(sides, lambda side: side.ask(OPTIMIZE, path=str(path))),
        0.1,
    )


def _beside_delta_rs(table: Path) -> Comparison:
    def theirs() -> None:
        DeltaTable(copies.pop()).optimize.compact(target_size=1 << 30)

    copies: list[str] = []
    return compare(
        f"compact {FILES} files, without Spark",
        peer="delta-rs",
        ours=lambda: tahoe.Table(copies.pop()).optimize(),
        theirs=theirs,
        before=lambda: copies.append(_copy(table, "alone")),
        goal=1.3,
    )


if __name__ == "__main__":
    print(f"lineitem at scale factor {SCALE_FACTOR}")
    report(*run())
