"""Streams beside the reference: offsets are equal to the byte, and a query goes on in the other implementation from its
checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

import tahoe
from tests.interop import queries
from tests.interop.reference import Reference
from tests.interop.streamed_tables import LAST, LATER, Sides, make, query_of, rows, rows_by_batch, run_statements


@pytest.fixture(params=["plain", "vectors", "mapped", "partitioned"])
def table(request: pytest.FixtureRequest, reference: Reference, tmp_path: Path) -> str:
    return make(reference, str(tmp_path / "t"), request.param)


# --- offsets

FEW = {"maxFilesPerTrigger": "3"}

# Tables with options.
OFFSETS: list[tuple[str, dict[str, str]]] = [
    ("plain", {}),
    ("plain", FEW),
    ("plain", {"maxBytesPerTrigger": "2k"}),
    ("plain", FEW | {"maxBytesPerTrigger": "4k"}),
    ("plain", FEW | {"startingVersion": "2"}),
    ("plain", {"startingVersion": "latest"}),
    ("plain", FEW | {"excludeRegex": "part-0000[13]"}),
    ("partitioned", FEW | {"excludeRegex": "p=a%2520b"}),
    ("vectors", FEW),
    ("vectors", FEW | {"startingVersion": "1", "ignoreChanges": "true"}),
    ("mapped", FEW),
]


@pytest.mark.parametrize(
    ("table", "options"), OFFSETS, ids=["-".join([table, *options]) for table, options in OFFSETS], indirect=["table"]
)
def test_offsets_are_equal(sides: Sides, table: str, options: dict[str, str], tmp_path: Path) -> None:
    compare(sides, table, options, tmp_path)


CHANGES: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({"ignoreDeletes": "true"}, ("DELETE FROM delta.`{path}` WHERE p = 'a b=1%'",)),
    (
        {"ignoreChanges": "true"},
        ("DELETE FROM delta.`{path}` WHERE p = 'a b=1%'", "UPDATE delta.`{path}` SET x = 0 WHERE id < 4"),
    ),
    ({"ignoreFileDeletion": "true"}, ("UPDATE delta.`{path}` SET x = 0 WHERE id < 4",)),
    (
        {"skipChangeCommits": "true"},
        ("DELETE FROM delta.`{path}` WHERE p = 'a b=1%'", "UPDATE delta.`{path}` SET x = 0 WHERE id < 4"),
    ),
]


@pytest.mark.parametrize(("options", "statements"), CHANGES, ids=["-".join(options) for options, _ in CHANGES])
def test_offsets_are_equal_over_changes(
    reference: Reference, sides: Sides, options: dict[str, str], statements: tuple[str, ...], tmp_path: Path
) -> None:
    table = make(reference, str(tmp_path / "t"), "partitioned")
    run_statements(reference, table, (*statements, *LATER))
    compare(sides, table, options | {"startingVersion": "1"} | FEW, tmp_path)


def compare(sides: Sides, table: str, options: Mapping[str, str], folder: Path) -> None:
    """Both run a query over all; their offsets, batches and rows are equal."""
    found = []
    for name, side in sides.items():
        query = query_of(table, folder / name, options=options)
        side(query)
        found.append(
            (queries.offsets(query), rows_by_batch(query.sink), rows(query.sink)) if Path(query.sink).exists() else None
        )
    assert found[0] == found[1]


# --- a query goes from one to the other

ORDERS = {"the reference begins": ("reference", "tahoe"), "tahoe begins": ("tahoe", "reference")}
of_each_order = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


@of_each_order
def test_a_query_goes_on_in_the_other(
    reference: Reference, sides: Sides, table: str, order: tuple[str, str], tmp_path: Path
) -> None:
    """They take turns after every batch, also inside the initial snapshot, with limits of their own."""
    turns = cycle(sides[name] for name in order)
    query = query_of(table, tmp_path)
    for limit in ("2", "1", "1", "2"):
        next(turns)(replace(query, options={"maxFilesPerTrigger": limit}), one_batch=True)
    assert '"isStartingVersion":true' in queries.offsets(query)[-1][0]
    next(turns)(query)
    run_statements(reference, table, LATER)
    next(turns)(query)
    next(turns)(query)
    run_statements(reference, table, LAST)
    next(turns)(query)
    assert rows(query.sink) == rows(table)


@of_each_order
@pytest.mark.parametrize("what", ["counts", "distinct"])
def test_state_goes_with_the_query(
    reference: Reference, sides: Sides, what: str, order: tuple[str, str], tmp_path: Path
) -> None:
    table = make(reference, str(tmp_path / "t"), "vectors")
    turns = cycle(sides[name] for name in order)
    query = query_of(table, tmp_path, options={"maxFilesPerTrigger": "2"}, **{what: "p"})
    for _ in range(3):
        next(turns)(query, one_batch=True)
    next(turns)(query)
    run_statements(reference, table, LATER)
    next(turns)(query)
    counts = Counter(row["p"] for row in tahoe.Table(table).to_arrow(columns=["p"]).to_pylist())
    wanted = [{"p": p} | ({"count": count} if what == "counts" else {}) for p, count in counts.items()]
    assert rows(query.sink) == sorted(map(repr, wanted))


@of_each_order
def test_two_sources_go_with_the_query(
    reference: Reference, sides: Sides, order: tuple[str, str], tmp_path: Path
) -> None:
    tables = [make(reference, str(tmp_path / name), name) for name in ("plain", "partitioned")]
    turns = cycle(sides[name] for name in order)
    query = query_of("", tmp_path, sources=tables, options={"maxFilesPerTrigger": "2"})
    for _ in range(2):
        next(turns)(query, one_batch=True)
    run_statements(reference, tables[1], LATER)
    next(turns)(query)
    run_statements(reference, tables[0], LAST)
    next(turns)(query)
    assert rows(query.sink) == sorted(rows(tables[0]) + rows(tables[1]))
    assert [len(batch) for batch in queries.offsets(query)] == [2] * len(queries.offsets(query))


@of_each_order
def test_a_committed_batch_is_not_written_again(
    reference: Reference, sides: Sides, order: tuple[str, str], tmp_path: Path
) -> None:
    """The driver died after the commit of a batch to the sink, before it was noted in the checkpoint."""
    table = make(reference, str(tmp_path / "t"), "partitioned")
    query = query_of(table, tmp_path, partition_by=["p"])
    for number, name in enumerate((*order, *order)):
        sides[name](query)
        last = max(int(file.name) for file in Path(query.checkpoint, "commits").iterdir() if file.name.isdigit())
        for file in (str(last), f".{last}.crc"):
            Path(query.checkpoint, "commits", file).unlink(missing_ok=True)
        if number == 1:
            run_statements(reference, table, LATER)
    sides[order[0]](query)
    assert rows(query.sink) == rows(table)
    history = [entry["operationParameters"] for entry in tahoe.Table(query.sink).history()]
    assert len({entry["queryId"] for entry in history}) == 1
    assert len({entry["epochId"] for entry in history}) == len(history)
