"""How fast is the MERGE that Spark's AutoCDC flows issue for a batch of changes, compared with the reference's MERGE?

The reference refuses AutoCDC flows, so both sides get the MERGE itself, with the clauses of Spark's
`Scd1BatchProcessor`: 1,000 keys, of which 80 % are newer, 10 % deleted and 10 % new. The target has 10,000,000 rows in
200 files, each of them a range of keys.

    ROUNDS=3   after a warm-up round
    ROWS=10000000
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from benchmarks.beside_reference import Side
from benchmarks.dml import DML, SCRATCH, VECTORS, beside_reference, processes
from benchmarks.measure import Comparison, report

ROWS = int(os.environ.get("ROWS", "10000000"))
FILES = 200
KEYS = 1000
SEQUENCE = 1_000_000

MERGE = """
    MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON s.l_orderkey = t.l_orderkey
    WHEN MATCHED AND s.cdc.deleteSequence IS NOT NULL AND s.cdc.deleteSequence > t.cdc.upsertSequence THEN DELETE
    WHEN MATCHED AND s.cdc.upsertSequence IS NOT NULL AND s.cdc.upsertSequence >= t.cdc.upsertSequence
        THEN UPDATE SET text = s.text, cdc = s.cdc
    WHEN NOT MATCHED AND s.cdc.deleteSequence IS NULL
        THEN INSERT (l_orderkey, text, cdc) VALUES (s.l_orderkey, s.text, s.cdc)
"""


def run() -> list[Comparison]:
    target = _target()
    try:
        with processes() as sides:
            near = _compared(sides, target, "of the last 5 % of the rows", _batch("near", ROWS * 95 // 100))
            return [near, _compared(sides, target, "at random", _batch("random", 0))]
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


def _compared(sides: Sequence[Side], target: Path, where: str, source: str) -> Comparison:
    question = f"AutoCDC's MERGE of {KEYS:,} keys {where}, into {ROWS:,} rows in {FILES} files"
    code = "spark.sql(statement.format(path=path, source=source)).collect()"
    return beside_reference(sides, target, question, code, 0.5, source=source, statement=MERGE)


def _target() -> Path:
    path = DML / f"cdc-{ROWS}"
    if not path.exists():
        shutil.rmtree(unfinished := path.with_name(f"{path.name}-unfinished"), ignore_errors=True)
        table, rows = tahoe.Table(str(unfinished)), ROWS // FILES
        table.create(_changes(range(1)).schema, properties=VECTORS)
        for number in range(FILES):  # even keys: the odd ones are new
            table.append(_changes(range(2 * rows * number, 2 * rows * (number + 1), 2)))
        unfinished.rename(path)
    return path


def _batch(name: str, first: int) -> str:
    """A source of changes of rows from one on."""
    chance = np.random.default_rng(1)
    keys = 2 * chance.choice(np.arange(first, ROWS), KEYS, replace=False)
    tenth = KEYS // 10
    keys[:tenth] += 1
    newer = _changes(keys[: 9 * tenth].tolist(), upserted=SEQUENCE)
    deleted = _changes(keys[9 * tenth :].tolist(), deleted=SEQUENCE)
    path = DML / "sources" / f"cdc-{ROWS}-{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.concat_tables([newer, deleted]), path)
    return str(path)


def _changes(keys: Sequence[int], upserted: int | None = 1, deleted: int | None = None) -> pa.Table:
    """Rows with the metadata of AutoCDC: the number of the change that made or deleted each."""
    count = len(keys)
    numbers = {"deleteSequence": deleted, "upsertSequence": None if deleted else upserted}
    fields = [pa.array([number] * count, pa.int64()) for number in numbers.values()]
    return pa.table(
        {
            "l_orderkey": pa.array(keys, pa.int64()),
            "text": [f"{key * 2654435761 % 2**32:08x}" * 4 for key in keys],
            "cdc": pa.StructArray.from_arrays(fields, names=list(numbers)),
        }
    )


if __name__ == "__main__":
    report(*run())
