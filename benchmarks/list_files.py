"""How much time and memory does it take to list a million files, compared with delta-rs?

Each side runs in its own process. tahoe lists path, url, size, time, partition values and row counts with
`Table(path).files()`; delta-rs has one call, `get_add_actions`, which returns the statistics of all six columns too. So
both are also compared with `inspect.statistics()` added, which tells what `get_add_actions` does. Imports count in the
memory, but not in the time.
"""

from __future__ import annotations

from benchmarks.measure import Comparison, report
from benchmarks.million_files import FILES, figures

SIDES = {
    "files": ["list_with_tahoe", "files"],
    "statistics": ["list_with_tahoe", "statistics"],
    "delta_rs": ["open_with_delta_rs", "nested"],
}
QUESTIONS = {"files": f"list {FILES:,} files", "statistics": f"list {FILES:,} files with the statistics of all columns"}
PEER = "delta-rs, get_add_actions"
WHAT = (
    "Listing a million files: tahoe does Table(path).files(), and for all columns also inspect.statistics(); "
    "delta-rs does DeltaTable(path), then get_add_actions()"
)


def run() -> list[Comparison]:
    runs = figures(SIDES)

    def compared(side: str, key: str, unit: str, goal: float | None) -> Comparison:
        ours, theirs = ([run[key] for run in runs[of]] for of in (side, "delta_rs"))
        what = "time" if unit == "s" else "memory"
        return Comparison(
            question=f"{QUESTIONS[side]}: {what}", peer=PEER, ours=ours, theirs=theirs, unit=unit, goal=goal, what=WHAT
        )

    return [
        compared("files", "seconds", "s", 0.3),
        compared("files", "megabytes", "MB", 0.5),
        compared("statistics", "seconds", "s", None),
        compared("statistics", "megabytes", "MB", None),
    ]


if __name__ == "__main__":
    report(*run())
