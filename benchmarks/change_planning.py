"""How long do DELETE of one id and MERGE of a hundred rows take to plan, on a table of a million files?

No file has the ids, so nothing is read but the log. One table has a checkpoint of ours, in the order of its clustering
column, the other one the same files in the order of another writer.
"""

from __future__ import annotations

import os
import shutil

import tahoe
from benchmarks.logs import CLUSTERED_BY, write_clustered_table
from benchmarks.measure import FOLDER, Comparison, compare, report, start_spark

FILES = int(os.environ.get("FILES", "1000000"))
ROWS = 100


def run() -> list[Comparison]:
    tables = {side: FOLDER / f"changes-{side}-{FILES}" for side in ("ordered", "unordered")}
    for side, table in tables.items():
        if not (table / "done").exists():
            shutil.rmtree(table, ignore_errors=True)
            write_clustered_table(table, FILES)
            if side == "ordered":
                with tahoe.Table(str(table)).transaction() as changes:
                    changes.set_txn("benchmark", 1)
                tahoe.Table(str(table)).create_checkpoint()
            (table / "done").touch()
    spark = start_spark()
    spark.range(-ROWS, 0).createOrReplaceTempView("source")

    def delete(side: str) -> None:
        spark.sql(f"DELETE FROM delta.`{tables[side]}` WHERE {CLUSTERED_BY} = -12345").collect()

    def merge(side: str) -> None:
        spark.sql(
            f"MERGE INTO delta.`{tables[side]}` t USING source s ON t.{CLUSTERED_BY} = s.id WHEN MATCHED THEN DELETE"
        ).collect()

    peer = "a checkpoint without the order"
    return [
        compare(
            f"DELETE of one id in {FILES:,} files",
            peer=peer,
            ours=lambda: delete("ordered"),
            theirs=lambda: delete("unordered"),
        ),
        compare(
            f"MERGE of {ROWS} rows into {FILES:,} files",
            peer=peer,
            ours=lambda: merge("ordered"),
            theirs=lambda: merge("unordered"),
        ),
    ]


if __name__ == "__main__":
    report(*run())
