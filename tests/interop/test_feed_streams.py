"""Change data feeds as streams beside the reference: offsets are equal to the byte, batches and rows too; a query goes
on in the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

import tahoe
from tests.interop import queries
from tests.interop.queries import Query
from tests.interop.reference import Reference
from tests.interop.streamed_tables import (
    COLUMNS,
    INSERT,
    MAPPED,
    VECTORS,
    Sides,
    query_of,
    rows,
    rows_by_batch,
    run_statements,
)

FEED = "'delta.enableChangeDataFeed' = 'true'"
TABLES = {
    "plain": f"TBLPROPERTIES ({FEED})",
    "vectors": f"TBLPROPERTIES ({FEED}, {VECTORS})",
    "mapped": f"PARTITIONED BY (p) TBLPROPERTIES ({FEED}, {VECTORS}, {MAPPED})",
    "timed": f"TBLPROPERTIES ({FEED}, {VECTORS}, 'delta.enableInCommitTimestamps' = 'true')",
}
FIRST = (f"{INSERT}(0, 20, 1, 5)", f"{INSERT}(20, 23, 1, 3)")
MATCH = "MERGE INTO delta.`{path}` t USING (SELECT id, 'm' p, 0 x FROM range(0, 40, 1, 2)) s ON t.id = s.id"
CHANGES = (
    "UPDATE delta.`{path}` SET x = 0 WHERE id % 4 = 1",
    "DELETE FROM delta.`{path}` WHERE id IN (2, 3, 21)",
    "DELETE FROM delta.`{path}` WHERE p = 'a b=1%'",
    f"{INSERT}(100, 106, 1, 3)",
    f"{MATCH} WHEN MATCHED AND s.id < 0 THEN DELETE",
    f"{MATCH} WHEN MATCHED AND s.id > 15 THEN UPDATE SET x = s.x WHEN NOT MATCHED THEN INSERT *",
    "OPTIMIZE delta.`{path}`",
    "RESTORE TABLE delta.`{path}` TO VERSION AS OF 4",
    "ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    "INSERT OVERWRITE delta.`{path}` SELECT id, 'o', 1 FROM range(0, 4, 1, 2)",
)
STORED = ("id", "p", "x", "_change_type AS kind", "_commit_version AS version", "_commit_timestamp AS time")


@pytest.fixture(params=list(TABLES))
def table(request: pytest.FixtureRequest, reference: Reference, tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    reference.run(f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta {TABLES[request.param]}")
    run_statements(reference, path, FIRST)
    return path


def feed_of(table: str, folder: Path, **options: str) -> Query:
    return query_of(table, folder, options={"readChangeFeed": "true", **options}, columns=STORED)


# Tables with options. The first version with rows is 1, the first with changes is 3.
OFFSETS: list[tuple[str, dict[str, str]]] = [
    ("plain", {"maxBytesPerTrigger": "3k", "startingVersion": "1"}),
    ("vectors", {"maxFilesPerTrigger": "1", "startingVersion": "0"}),
    ("mapped", {"maxFilesPerTrigger": "3", "startingVersion": "3"}),
    ("plain", {"maxFilesPerTrigger": "3", "excludeRegex": "_change_data/.*[0-7]-", "startingVersion": "1"}),
    ("timed", {"maxFilesPerTrigger": "5", "startingVersion": "0"}),
]


@pytest.mark.parametrize(
    ("table", "options"), OFFSETS, ids=["-".join([table, *options]) for table, options in OFFSETS], indirect=["table"]
)
def test_offsets_and_rows_are_equal(
    reference: Reference, sides: Sides, table: str, options: Mapping[str, str], tmp_path: Path
) -> None:
    """At first over the initial rows alone, and then over all changes."""
    found = []
    given = {name: feed_of(table, tmp_path / name, **options) for name in sides}
    early = options.get("startingVersion", "0") < "3"
    if early:
        for name, side in sides.items():
            side(given[name])
    run_statements(reference, table, CHANGES)
    for name, side in sides.items():
        side(given[name])
        found.append((queries.offsets(given[name]), rows_by_batch(given[name].sink), rows(given[name].sink)))
    assert found[0] == found[1]


TURNS = [("plain", ("reference", "tahoe")), ("timed", ("tahoe", "reference"))]


@pytest.mark.parametrize(
    ("table", "order"), TURNS, ids=[f"{table}, {order[0]} begins" for table, order in TURNS], indirect=["table"]
)
def test_a_query_goes_on_in_the_other(
    reference: Reference, sides: Sides, table: str, order: tuple[str, str], tmp_path: Path
) -> None:
    """They take turns after every batch, also inside the initial snapshot and inside commits, with limits of their
    own.
    """
    turns, query = cycle(sides[name] for name in order), feed_of(table, tmp_path)
    limits = cycle(["2", "1", "3"])

    def one_batch() -> None:
        next(turns)(replace(query, options={**query.options, "maxFilesPerTrigger": next(limits)}), one_batch=True)

    for _ in range(2):
        one_batch()
    before = tahoe.Table(table).version
    run_statements(reference, table, CHANGES)
    for _ in range(5):
        one_batch()
    next(turns)(query)
    wanted = [tuple(row.values()) for row in tahoe.Table(table).changes(start_version=before + 1).to_pylist()]
    found = [tuple(row.values()) for row in tahoe.Table(query.sink).to_arrow().to_pylist()]
    assert sorted(map(repr, (row for row in found if row[4] > before))) == sorted(map(repr, wanted))
    assert [row[3] for row in found if row[4] <= before] == ["insert"] * 23
