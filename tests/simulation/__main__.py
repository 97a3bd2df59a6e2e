"""python -m tests.simulation [FIRST [COUNT [catalog]]]: so many lives from a seed on, on all cores; what they met, and
what must never be. With the last word, a catalog ratifies their commits.

One seed alone, as `python -m tests.simulation 42 1`, prints every call of its life.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tahoe.testing.simulated_world import Life
from tahoe.testing.simulator import live

LIVES = 10_000


def main(first: int = 0, count: int = LIVES, *, has_catalog: bool = False) -> int:
    began = time.monotonic()
    logging.getLogger("tahoe").setLevel(logging.CRITICAL)  # failures of upkeep are what is simulated
    if count == 1:
        found = [live(first, has_catalog=has_catalog)]
        print("\n".join(found[0].trace))
    else:
        with ProcessPoolExecutor() as pool:
            lived = pool.map(partial(live, has_catalog=has_catalog), range(first, first + count), chunksize=50)
            found = [_without_trace(life) for life in lived]
    report(found)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if any(life.violations for life in found) else 0


def _without_trace(life: Life) -> Life:
    life.trace.clear()
    return life


def report(lives: list[Life]) -> None:
    """What happened, in a few lines; every violation with its seed."""
    faults = sum((life.faults for life in lives), Counter[str]())
    rebased = sum(life.rebases_after_fault > 0 for life in lives)
    print(
        f"{len(lives):,} lives, {sum(life.steps for life in lives):,} storage calls, "
        f"{sum(life.commits for life in lives):,} commits,"
    )
    print(
        f"{sum(life.conflicts for life in lives):,} conflicts, {rebased:,} lives with a commit behind a winner "
        f"after a fault"
    )
    print("faults: " + ", ".join(f"{count:,} x {name}" for name, count in faults.most_common()))
    wrong = [life for life in lives if life.violations]
    print(f"violations: {len(wrong)}")
    for life in wrong[:20]:
        print(f"  seed {life.seed}: {life.violations[0]}")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3]), has_catalog=sys.argv[3:] == ["catalog"]))
