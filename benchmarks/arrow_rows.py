"""How fast are rows read and written without Spark, compared with delta-rs? Both read and write the same tables, in one
process.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa

import tahoe
from benchmarks.measure import FOLDER, Comparison, compare, report
from tahoe.storage.background import finish_background

ROWS, FILES = 10_000_000, 10
APPENDED = 1_000_000
TARGET, SOURCE = 1_000_000, 10_000
COMMITS = 50
PEER = "delta-rs"
KEY, LOW, HIGH = 5_000_017, 3_000_000, 3_500_000


def rows(count: int, start: int = 0) -> pa.Table:
    dice = np.random.default_rng(start)
    texts = pa.array([f"name {i}" for i in range(5000)]).take(pa.array(dice.integers(0, 5000, count)))
    return pa.table({"id": np.arange(start, start + count), "v": dice.random(count), "s": texts})


def made(name: str, *, files: int = 0, count: int = 0) -> str:
    path = str(FOLDER / f"arrow-rows-{name}")
    shutil.rmtree(path, ignore_errors=True)
    for number in range(files):
        tahoe.Table(path).append(rows(count // files, number * (count // files)))
    return path


def bytes_in(path: str) -> int:
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


def reads() -> list[Comparison]:
    path = made("read", files=FILES, count=ROWS)
    asked = {
        "read 10,000,000 rows whole": (None, None),
        "read one of 10,000,000 rows by its key": (f"id = {KEY}", [("id", "=", KEY)]),
        "read a twentieth of 10,000,000 rows, a range": (
            f"id between {LOW} and {HIGH}",
            [("id", ">=", LOW), ("id", "<=", HIGH)],
        ),
    }
    return [
        compare(
            question,
            peer=PEER,
            ours=lambda filter=ours: tahoe.Table(path).to_arrow(filter=filter),  # type: ignore[misc]
            theirs=lambda filters=theirs: pa.table(deltalake.DeltaTable(path).to_pyarrow_table(filters=filters)),  # type: ignore[misc]
            goal=1.0,
        )
        for question, (ours, theirs) in asked.items()
    ]


def appends() -> list[Comparison]:
    data, few = rows(APPENDED), [rows(10, number * 10) for number in range(COMMITS)]
    one, many = (str(FOLDER / f"arrow-rows-{name}") for name in ("one", "many"))
    sizes: dict[str, list[float]] = {"ours": [], "theirs": []}

    def clean() -> None:
        for path in (one, many):
            shutil.rmtree(path, ignore_errors=True)

    def ours() -> None:
        for part in few:
            tahoe.Table(many).append(part)
        finish_background()  # checksums and checkpoints are a part of the work
        sizes["ours"].append(bytes_in(many))

    def theirs() -> None:
        for part in few:
            deltalake.write_deltalake(many, part, mode="append")
        sizes["theirs"].append(bytes_in(many))

    large = compare(
        "append 1,000,000 rows",
        peer=PEER,
        ours=lambda: (tahoe.Table(one).append(data), finish_background()),
        theirs=lambda: deltalake.write_deltalake(one, data, mode="append"),
        before=clean,
        goal=1.0,
    )
    small = compare("50 appends of ten rows", peer=PEER, ours=ours, theirs=theirs, before=clean, goal=1.0)
    return [
        large,
        small,
        Comparison(question="50 appends of ten rows: bytes", peer=PEER, **sizes, unit="bytes", goal=1.0),
    ]


def merges() -> Comparison:
    pristine, path = made("pristine", files=1, count=TARGET), str(FOLDER / "arrow-rows-merge")
    finish_background()  # the table is copied below
    dice = np.random.default_rng(1)
    ids = dice.choice(TARGET + SOURCE // 2, SOURCE, replace=False)
    source = rows(SOURCE).set_column(0, "id", pa.array(ids))

    def again() -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(pristine, path)

    def ours() -> None:
        merge = tahoe.Table(path).merge(source, on="id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        finish_background()

    def theirs() -> None:
        merge = deltalake.DeltaTable(path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return compare(
        "merge 10,000 rows into 1,000,000",
        peer=PEER,
        ours=ours,
        theirs=theirs,
        before=again,
        goal=0.7,
        what="Neither side has deletion vectors: files with changed rows are rewritten",
    )


def run() -> list[Comparison]:
    return [*reads(), *appends(), merges()]


if __name__ == "__main__":
    report(*run())
