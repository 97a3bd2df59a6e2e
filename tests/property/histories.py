"""Random histories of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import tahoe
from tahoe.protocol.changes.column_changes import NewColumn
from tahoe.protocol.types.schema import LONG, Field
from tahoe.table.reading.snapshot import Snapshot
from tests.table.builders import memory_env

SWITCHES = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "mapped": {"delta.columnMapping.mode": "name"},
    "tracked": {"delta.enableRowTracking": "true"},
    "stamped": {"delta.enableInCommitTimestamps": "true"},
    "statistics as columns": {
        "delta.checkpoint.writeStatsAsJson": "false",
        "delta.checkpoint.writeStatsAsStruct": "true",
    },
}

STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(1, 4))
    | st.tuples(st.just("delete"), st.integers(2, 4))
    | st.tuples(st.just("optimize"), st.just(0))
    | st.tuples(st.just("switch"), st.sampled_from(list(SWITCHES)))
    | st.tuples(st.just("column"), st.just(0))
    | st.tuples(st.just("drop"), st.sampled_from(["rowTracking", "inCommitTimestamp"]))
    | st.tuples(st.just("restore"), st.integers(0, 7)),
    min_size=1,
    max_size=7,
)


@dataclass
class History:
    """A table with a feed, and what happens to it."""

    table: tahoe.Table
    rows: int = 0
    columns: int = 0

    def do(self, step: str, what: Any) -> None:
        if step == "append":
            ids = range(self.rows, self.rows + what)
            self.rows += what
            self.table.append(pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"a {i % 2}%" for i in ids])}))
        elif step == "delete":
            with self.table.transaction() as changes:
                changes.delete(f"id in ({', '.join(str(i) for i in range(0, self.rows + 1, what))})")
        elif step == "optimize":
            self.table.optimize()
        elif step == "switch":
            with self.table.transaction() as changes:
                changes.set_properties(SWITCHES[what])
        elif step == "column":
            self.columns += 1
            with self.table.transaction() as changes:
                changes.add_columns([NewColumn(field=Field(name=f"c{self.columns}", type=LONG))])
        elif step == "drop":
            if what in (self.table.protocol.writer_features or ()):
                self.table.drop_feature(what)
        else:
            self.table.restore(min(what, self.table.version))


@st.composite
def histories(draw: st.DrawFn) -> tahoe.Table:
    table = tahoe.Table("memory://t", env=memory_env())
    properties = {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": draw(st.sampled_from(["1", "3"]))}
    for name in draw(st.sets(st.sampled_from(list(SWITCHES)))):
        properties |= SWITCHES[name]
    ids = pa.array([100, 101, 102], pa.int64())
    table.append(
        pa.table({"id": ids, "p": ["x", "y", "x"]}),
        partition_by=draw(st.sampled_from([None, ["p"]])),
        properties=properties,
    )
    history = History(table)
    for step, what in draw(STEPS):
        history.do(step, what)
    return table


def rows(snapshot: Snapshot, *columns: str) -> Counter[str]:
    return Counter(
        repr(sorted(row.items())) for row in snapshot.to_arrow(columns=[*snapshot.schema.names, *columns]).to_pylist()
    )
