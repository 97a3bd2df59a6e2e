"""Does a compaction get in the way of writers? Threads change single rows of the same files while OPTIMIZE runs again
and again.

Each side has a table with deletion vectors and a session of its own. The question is how many commands fail, and how
many are done in a time, compared with the same time without a compaction.
"""

from __future__ import annotations

import shutil
import sys

from benchmarks.beside_reference import Side, both
from benchmarks.measure import FOLDER, Comparison, report

SECONDS = 60
THREADS = 8
ROWS_PER_THREAD = 10_000

# What runs in the worker: a function that returns the number of commands that were done, of those that failed, and of
# compactions.
PREPARE = (
    "spark.range(0, 80000, 1, 16).selectExpr('id', 'id AS n').write.format('delta').mode('append')"
    ".option('delta.enableDeletionVectors', 'true').save(path)"
)


def run() -> list[Comparison]:
    found = []
    with both() as sides:
        for side in sides:
            counts = {is_compacted: _counts(side, is_compacted) for is_compacted in (False, True)}
            print(f"{side.name}: {counts}", file=sys.stderr)
            (done_alone, _, _), (done, failed, compactions) = counts[False], counts[True]
            found += [
                Comparison(
                    question=f"commands that fail beside {compactions} compactions, {side.name}",
                    peer="commands done",
                    ours=[failed],
                    theirs=[done],
                    unit="",
                    goal=0.0 if side.name == "tahoe" else None,
                ),
                Comparison(
                    question=f"seconds per command beside compactions, {side.name}",
                    peer="without a compaction",
                    ours=[SECONDS / max(1, done)],
                    theirs=[SECONDS / max(1, done_alone)],
                    goal=1 / 0.7 if side.name == "tahoe" else None,
                ),
            ]
    return found


def _counts(side: Side, is_compacted: bool) -> tuple[int, int, int]:
    path = FOLDER / f"busy-{side.name}"
    shutil.rmtree(path, ignore_errors=True)
    side.ask(PREPARE, path=str(path))
    code = (
        "[import_module('benchmarks.busy_writers').change_rows(spark, path, int(threads), int(seconds), is_compacted "
        "== 'yes')]"
    )
    side.ask(
        code, path=str(path), threads=str(THREADS), seconds=str(SECONDS), is_compacted="yes" if is_compacted else "no"
    )
    done, failed, compactions = map(int, side.rows[0])
    return done, failed, compactions


if __name__ == "__main__":
    report(*run())
