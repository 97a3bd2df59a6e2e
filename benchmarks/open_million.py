"""How much time and memory does it take to open a table of a million files, compared with delta-rs?

Each side runs in its own process, and ends with all paths, all sizes and the minimum values of one column in memory.
tahoe is asked for the statistics of that column. delta-rs has one call, `get_add_actions`, which returns the statistics
of all six columns; so the time to open the table without any of these is shown as well. Imports count in the memory,
but not in the time.
"""

from __future__ import annotations

from benchmarks.measure import Comparison, report
from benchmarks.million_files import FILES, figures

SIDES = {"tahoe": ["open_with_tahoe"], "delta_rs": ["open_with_delta_rs"]}
WHAT = (
    "Opening a million files: tahoe does Table(path).snapshot() and takes path, size and one column's statistics; "
    "delta-rs does DeltaTable(path), then get_add_actions(flatten=True)"
)


def run() -> list[Comparison]:
    runs = figures(SIDES)

    def compared(what: str, key: str, peer: str, their_key: str, unit: str, goal: float | None) -> Comparison:
        ours, theirs = [run[key] for run in runs["tahoe"]], [run[their_key] for run in runs["delta_rs"]]
        return Comparison(
            question=f"open {FILES:,} files: {what}",
            peer=peer,
            ours=ours,
            theirs=theirs,
            unit=unit,
            goal=goal,
            what=WHAT,
        )

    loaded, opened = "delta-rs, the same loaded", "delta-rs, only opened"
    return [
        compared("time", "seconds", loaded, "seconds", "s", 0.5),
        compared("memory", "megabytes", loaded, "megabytes", "MB", 1.0),
        compared("time", "seconds", opened, "opened_seconds", "s", None),
        compared("memory", "megabytes", opened, "opened_megabytes", "MB", None),
    ]


if __name__ == "__main__":
    report(*run())
