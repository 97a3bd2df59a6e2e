"""What a look-up in the record of loaded files costs when a million files were loaded, and what a run adds to it.

The files came day by day: each run has loaded the 1,000 files of a day. The record is compared with one that has no
parts and no bounds, which is read as a whole. Without Spark, on the local disk.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

import tahoe
from benchmarks.measure import FOLDER, Comparison, compare, report
from tahoe.protocol.log.copied_files import CopiedFiles
from tahoe.table.log.copied_files import SCHEMA, all_loaded, loaded_among, with_loaded

PLACE = FOLDER / "copy_into"
DAYS, FILES_PER_DAY = 1000, 1000


def paths_of(day: int) -> list[str]:
    numbers = random.Random(day)
    return sorted(f"s3a://landing/events/{day:05d}/{numbers.getrandbits(64):016x}.json" for _ in range(FILES_PER_DAY))


def entries(paths: list[str]) -> pa.Table:
    columns = {"path": paths} | {name: [1] * len(paths) for name in SCHEMA.names[1:]}
    return pa.table(columns, schema=SCHEMA)


def main() -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    env = tahoe.Table(PLACE).env
    record = CopiedFiles(table_id="t")
    for day in range(DAYS):
        before = record
        record, _ = with_loaded(env, record, entries(paths_of(day)))
    every = [path for day in range(DAYS) for path in paths_of(day)]
    some = sorted(random.Random(1).sample(every, 100))
    print(f"{len(every):,} files in {len(record.parts)} parts, {size_mb(record):.1f} MB")

    def look(paths: list[str], expected: int) -> None:
        assert loaded_among(env.store, record, paths).num_rows == expected

    def look_in_all(paths: list[str], expected: int) -> None:
        known = all_loaded(env.store, record)
        assert known.filter(pc.is_in(known["path"], value_set=pa.array(paths))).num_rows == expected

    def lookup(question: str, paths: list[str], expected: int) -> Comparison:
        found = compare(
            question,
            peer="the whole record is read",
            ours=lambda: look(paths, expected),
            theirs=lambda: look_in_all(paths, expected),
        )
        return in_ms(found)

    report(
        lookup("1,000 new files of a new day", paths_of(DAYS), 0),
        lookup("1,000 files of a day that was loaded", paths_of(7), FILES_PER_DAY),
        lookup("100 files of any days", some, 100),
        lookup("all 1,000,000 files", every, len(every)),
        in_ms(
            compare(
                "record a run of 1,000 files",
                peer="a run of one file",
                ours=lambda: with_loaded(env, before, entries(paths_of(DAYS - 1))),
                theirs=lambda: with_loaded(env, before, entries(paths_of(DAYS - 1)[:1])),
            )
        ),
    )
    shutil.rmtree(PLACE)


def size_mb(record: CopiedFiles) -> float:
    return sum((PLACE / part.key).stat().st_size for part in record.parts) / 1e6


def in_ms(found: Comparison) -> Comparison:
    ours, theirs = ([seconds * 1000 for seconds in times] for times in (found.ours, found.theirs))
    return replace(found, ours=ours, theirs=theirs, unit="ms")


if __name__ == "__main__":
    main()
