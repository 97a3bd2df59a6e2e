"""What Iceberg's metadata costs beside a log: what a commit waits for, how far the metadata is behind it, the first
conversion, and the bytes of a thousand commits. Without Spark.

What has no peer is compared with what it may take. The reference's converter is a JAR of its own.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

import tahoe
from benchmarks.measure import FOLDER, Comparison, report
from tahoe.iceberg.conversion import sync
from tahoe.protocol.log.log_files import commit_name
from tahoe.storage.background import finish_background
from tahoe.table.transactions.alter import set_properties

PLACE = FOLDER / "iceberg"
COMPAT = {"delta.enableIcebergCompatV2": "true"}
COMPAT_V3 = {"delta.enableIcebergCompatV3": "true", "delta.enableDeletionVectors": "true"}
FORMATS = {"delta.universalFormat.enabledFormats": "iceberg"}
FILES, LARGE, APPENDS, COMMITS = 10_000, 100_000, 20, 1000
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "text": ["a", "b", "c"], "price": [0.5, 1.5, 2.5]})


def main() -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    report(*_commits("V2", COMPAT, _append), *_commits("V3", COMPAT_V3, _delete), _first(), _bytes())
    shutil.rmtree(PLACE)


def _made(name: str, files: int, properties: dict[str, str], compat: dict[str, str] = COMPAT) -> tahoe.Table:
    """A table of so many files, all but one of which are entries in its log alone."""
    path = PLACE / name
    table = tahoe.Table(str(path))
    table.append(ROWS, properties={**compat, **properties})
    finish_background()
    (add,) = (line["add"] for line in map(json.loads, (path / "_delta_log" / commit_name(0)).open()) if "add" in line)
    together = 10_000
    for version, start in enumerate(range(1, files, together), 1):
        adds = ({"add": {**add, "path": f"none-{n}.parquet"}} for n in range(start, min(start + together, files)))
        lines = [{"commitInfo": {"operation": "WRITE", "timestamp": 0}}, *adds]
        (path / "_delta_log" / commit_name(version)).write_text("\n".join(map(json.dumps, lines)))
    table = tahoe.Table(str(path))
    table.create_checkpoint()
    return table


def _append(table: tahoe.Table, number: int) -> None:  # noqa: ARG001  as `_delete`
    table.append(ROWS)


def _delete(table: tahoe.Table, number: int) -> None:
    """Mark a row in the last file, which has enough of them."""
    table.delete(f"id = {number + 10}")


def _commits(version: str, compat: dict[str, str], commit: Callable[[tahoe.Table, int], None]) -> list[Comparison]:
    """Commits to two tables in turn: the appends of one file, or deletes by deletion vectors."""
    sides = {
        "with": _made(f"with-{version}", FILES, FORMATS, compat),
        "without": _made(f"without-{version}", FILES, {}, compat),
    }
    for table in sides.values():
        table.append(pa.table({"id": pa.array(range(10, 1000), pa.int64())}))
    finish_background()
    waits: dict[str, list[float]] = {"with": [], "without": []}
    behind, small = list[float](), list[float]()
    folder = PLACE / f"with-{version}" / "metadata"
    for number in range(APPENDS + 1):
        for side, table in list(sides.items())[:: 1 if number % 2 else -1]:
            before = set(folder.iterdir())
            waited = _seconds(partial(commit, table, number))
            later = _seconds(finish_background)
            if number:
                waits[side].append(waited)
                if side == "with":
                    behind.append(later)
                    small.append(len(set(folder.iterdir()) - before))
    what = "append one file to" if commit is _append else "delete a row by a deletion vector in"
    question = f"{version}: {what} a table of {FILES:,}, with Iceberg's metadata"
    return [
        Comparison(question=question, peer="without it", ours=waits["with"], theirs=waits["without"], goal=1.1),
        _may_take(f"{version}: how long the metadata is behind the commit", behind, 1),
        _may_take(f"{version}: new files of metadata for a commit", small, 5, ""),
    ]


def _first() -> Comparison:
    table = _made("large", LARGE, {})
    set_properties(table, FORMATS)
    finish_background()
    snapshot = table.snapshot()
    taken = [_seconds(lambda: sync(snapshot, whole=True)) for _ in range(3)]
    return Comparison(
        question=f"convert {LARGE:,} files for the first time", peer="the same again", ours=taken, theirs=taken
    )


def _bytes() -> Comparison:
    table = tahoe.Table(str(PLACE / "many"))
    table.append(ROWS, properties={**COMPAT, **FORMATS})
    for _ in range(COMMITS):
        table.append(ROWS)
        finish_background()
    metadata, log = (_megabytes(PLACE / "many" / name) for name in ("metadata", "_delta_log"))
    question = f"Iceberg's metadata of {COMMITS:,} commits of one file"
    return Comparison(question=question, peer="the Delta log", ours=[metadata], theirs=[log], unit="MB")


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _may_take(question: str, ours: list[float], limit: float, unit: str = "s") -> Comparison:
    return Comparison(question=question, peer="what it may take", ours=ours, theirs=[limit], unit=unit, goal=1)


if __name__ == "__main__":
    main()
