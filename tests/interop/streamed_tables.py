"""Tables of the reference as sources of streams, and the rows and batches of a sink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tahoe
from tests.interop.queries import Query
from tests.interop.reference import Reference

COLUMNS = "id BIGINT NOT NULL, p STRING NOT NULL, x DOUBLE"
ROWS = "SELECT id, concat('a b=', id % 3, '%') p, id / 2 x FROM range"
INSERT = "INSERT INTO delta.`{path}` " + ROWS
VECTORS, MAPPED = "'delta.enableDeletionVectors' = 'true'", "'delta.columnMapping.mode' = 'name'"

# How each table is made: its clauses, and statements over {path}. Files of one write have the same modification time
# now and then.
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain": (
        "",
        (f"{INSERT}(0, 20, 1, 5)", f"{INSERT}(20, 23, 1, 3)", "OPTIMIZE delta.`{path}`", f"{INSERT}(23, 30, 1, 7)"),
    ),
    "vectors": (
        f"TBLPROPERTIES ({VECTORS})",
        (f"{INSERT}(0, 20, 1, 5)", "DELETE FROM delta.`{path}` WHERE id IN (1, 6, 19)", f"{INSERT}(20, 23, 1, 3)"),
    ),
    "mapped": (
        f"PARTITIONED BY (p) TBLPROPERTIES ({VECTORS}, {MAPPED})",
        (
            f"{INSERT}(0, 12, 1, 2)",
            "ALTER TABLE delta.`{path}` RENAME COLUMN x TO y",
            "DELETE FROM delta.`{path}` WHERE id IN (1, 6)",
            f"{INSERT}(20, 23, 1, 3)",
        ),
    ),
    "partitioned": ("PARTITIONED BY (p)", (f"{INSERT}(0, 12, 1, 2)", f"{INSERT}(20, 23, 1, 3)")),
}
LATER = (
    "ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    f"{INSERT}(100, 106, 1, 3)",
    "OPTIMIZE delta.`{path}`",
)
LAST = (f"{INSERT}(200, 202, 1, 2)",)

# How to run a query, by the name of who runs it.
Sides = dict[str, Callable[..., None]]


def make(reference: Reference, path: str, name: str) -> str:
    clauses, statements = TABLES[name]
    reference.run(f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta {clauses}")
    reference.run(*(text.format(path=path) for text in statements))
    return path


def run_statements(reference: Reference, path: str, statements: tuple[str, ...]) -> None:
    reference.run(*(text.format(path=path) for text in statements))


def rows(path: str) -> list[str]:
    return sorted(repr(row) for row in tahoe.Table(path).to_arrow().to_pylist())


def rows_by_batch(sink: str) -> list[tuple[str, str]]:
    """The number of each batch that a sink has, with the rows that it has appended."""
    history = [entry for entry in reversed(tahoe.Table(sink).history()) if entry["operation"] == "STREAMING UPDATE"]
    return [(entry["operationParameters"]["epochId"], entry["operationMetrics"]["numOutputRows"]) for entry in history]


def query_of(table: str, folder: Path, **about: Any) -> Query:
    return Query(**{"sources": [table], "sink": f"{folder}/sink", "checkpoint": f"{folder}/checkpoint"} | about)
