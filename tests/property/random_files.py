"""Random data files as several writers leave them: with deletion vectors, and statistics that are wide, cut or in part
missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from hypothesis import strategies as st

from tahoe.protocol.log.actions import Add, Metadata, Protocol
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.statistics.stats import Statistics, encode_statistics
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tests.property.random_predicates import LEAVES, PARTITION, SCHEMA, rows_of, statistics_of, widened
from tests.table.builders import add, memory_env, put_commit

PROTOCOL = Protocol(
    reader_version=3,
    writer_version=7,
    reader_features=frozenset({"deletionVectors"}),
    writer_features=frozenset({"deletionVectors"}),
)
METADATA = Metadata(id="t", schema_string=SCHEMA.to_json(), partition_columns=("part",))
COLUMNS = [*LEAVES, PARTITION]


@dataclass(frozen=True)
class Written:
    """A file as a writer leaves it, and the rows that no vector marks."""

    action: Add
    rows: list[dict]


@st.composite
def written(draw, number, paths, *, loses=True):
    """`loses`: some statistics are missing."""
    stored = draw(st.lists(rows_of(paths), max_size=3))
    marked = draw(st.sets(st.sampled_from(range(len(stored))))) if stored and draw(st.integers(0, 2)) == 0 else set()
    part = draw(st.sampled_from(["a", "b", None]))
    is_wide = bool(marked) or draw(st.integers(0, 5)) == 0
    text = draw(texts(statistics_of(stored, omits_nan=draw(st.booleans())), paths, is_wide=is_wide, loses=loses))
    vector = inline_descriptor(sorted(marked)) if marked else None
    action = add(f"f{number}", stats=text, partition_values={"part": part}, deletion_vector=vector)
    return Written(action, [{**row, "part": part} for index, row in enumerate(stored) if index not in marked])


@st.composite
def texts(draw, exact, paths, *, is_wide, loses):
    """Statistics of one of several habits: wide, cut; in part missing or null, or none at all."""
    if loses and draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, "", "{}", "broken"]))
    statistics = draw(widened(Statistics(**{**fields(exact), "tight_bounds": False}))) if is_wide else exact
    text = encode_statistics(statistics, SCHEMA, prefix_length=draw(st.sampled_from([16, 32])))
    return draw(in_part(text, paths)) if loses else text


@st.composite
def in_part(draw, text, paths):
    """Statistics of which some are missing or null."""
    body = json.loads(text)
    for kind in ("minValues", "maxValues", "nullCount"):
        for path in paths:
            lost = draw(st.sampled_from(["no", "no", "no", "absent", "null"]))
            if lost != "no" and path[0] in body.get(kind, {}):
                body[kind].pop(path[0])
                body[kind] |= {path[0]: None} if lost == "null" else {}
    if draw(st.integers(0, 9)) == 0:
        body.pop("numRecords")
    return json.dumps(body)


def fields(statistics):
    return {name: getattr(statistics, name) for name in ("num_records", "min_values", "max_values", "null_count")}


def loaded(files) -> Snapshot:
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, METADATA, *(file.action for file in files)])
    return load_snapshot(Log(env))
