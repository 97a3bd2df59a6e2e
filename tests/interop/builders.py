"""Tables that the tests of both implementations share."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tests.interop.reference import Reference


def save(frame: DataFrame, path: str, mode: str = "append", by: str | None = None, **options: str) -> None:
    writer = frame.write.format("delta").mode(mode).options(**options)
    (writer.partitionBy(*by.split(", ")) if by else writer).save(path)


KINDS = {
    "plain": "",
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "tracked": "TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true')",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "clustered": "CLUSTER BY (id)",
}


def made(reference: Reference, path: str, kind: str) -> None:
    """Version 0 is empty, version 1 has ten rows, and later versions have others."""
    reference.run(
        f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta {KINDS[kind]}",
        f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ CAST(id AS INT), 'a' FROM range(10)",
        f"DELETE FROM delta.`{path}` WHERE id = 3",
        f"INSERT INTO delta.`{path}` VALUES (20, 'b')",
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mine' = '1')",
    )


def ids(reference: Reference, path: str) -> list[int]:
    return sorted(row["id"] for row in reference.sql(f"SELECT id FROM delta.`{path}`").to_pylist())
