"""MERGE with stars, and UPDATE of one column, on a table of 2,000 columns and 50 rows: compared with the reference."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from benchmarks.beside_reference import Side, both, compared, turns
from benchmarks.measure import FOLDER, Comparison, report

COLUMNS = 2000
ROWS = 50

STATEMENTS = {
    "MERGE with stars": (
        0.5,
        "spark.sql('MERGE INTO delta.`' + path + '` t USING delta.`' + source + '` s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *').collect()",
    ),
    "UPDATE of one column": (0.3, "spark.sql('UPDATE delta.`' + path + '` SET c7 = 1 WHERE id = 3').collect()"),
}


def run() -> list[Comparison]:
    folder = FOLDER / "wide-statements"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    columns = [f"id + {number} AS c{number}" for number in range(COLUMNS - 1)]
    write = "spark.range(start, start + rows).selectExpr('id', *columns).coalesce(1).write.format('delta').save(path)"
    with both() as sides:
        for side in sides:
            for name, start in (("table", 0), ("source", ROWS // 2)):
                code = (
                    write.replace("start", str(start)).replace("rows", str(ROWS)).replace("*columns", f"*{columns!r}")
                )
                side.ask(code, path=str(folder / f"{side.name}-{name}"))
        found = [
            compared(f"{name}, {COLUMNS:,} columns", turns(sides, _asking(folder, code), rounds=3), goal)
            for name, (goal, code) in STATEMENTS.items()
        ]
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _asking(folder: object, code: str) -> Callable[[Side], float]:
    return lambda side: side.ask(code, path=f"{folder}/{side.name}-table", source=f"{folder}/{side.name}-source")


if __name__ == "__main__":
    report(*run())
