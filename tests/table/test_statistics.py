"""Typed statistics are read once for the queries that name the same columns; rows are counted without parsing
everything.
"""

from __future__ import annotations

import io
import itertools
import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tahoe.protocol.types.schema import LONG, STRING
from tahoe.table.arrow import statistics
from tahoe.table.arrow.parquet import NestedColumns
from tahoe.table.arrow.statistics import StatisticsCache, StatisticsRequest, parse_statistics, record_counts
from tahoe.table.log.file_parts import AMBIGUOUS, MemoryPart
from tests.table.builders import memory_env

TEXTS = pa.chunked_array(
    [
        [
            '{"numRecords":2,"minValues":{"a":1,"b":"x"},"maxValues":{"a":5,"b":"y"},"nullCount":{"a":0,"b":1}}',
            None,
            '{"numRecords":1,"minValues":{"a":7},"maxValues":{"a":7},"nullCount":{"a":0}}',
        ]
    ]
)
A, B, BOTH, NONE = (
    StatisticsRequest(dict(c)) for c in ([(("a",), LONG)], [(("b",), STRING)], [(("b",), STRING), (("a",), LONG)], [])
)


class Reader:
    """Reads, and remembers what for."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, ...]]] = []

    def __call__(self, request: StatisticsRequest) -> pa.Table:
        self.asked.append(list(request.columns))
        return parse_statistics(TEXTS, request)


def test_answers_are_those_of_reading_anew_and_columns_are_read_once():
    kept, read = StatisticsCache(), Reader()
    for request in (A, BOTH, B, NONE, A, BOTH):
        assert kept.answer(request, read).equals(parse_statistics(TEXTS, request))
    assert read.asked == [[("a",)], [("b",)]]


def test_what_was_used_longest_ago_goes_first(monkeypatch):
    kept, read = StatisticsCache(), Reader()
    monkeypatch.setattr(statistics, "CACHED_BYTES_MAX", 1)
    kept.answer(A, read)
    assert kept.answer(B, read).equals(parse_statistics(TEXTS, B))
    kept.answer(A, read)
    assert len(read.asked) == 3


def test_fewer_files_keep_their_statistics():
    kept, read = StatisticsCache(), Reader()
    kept.answer(BOTH, read)
    smaller = kept.take(pa.array([2, 0]))
    assert smaller.answer(BOTH, read).equals(parse_statistics(TEXTS, BOTH).take(pa.array([2, 0])))
    assert len(read.asked) == 1


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("group_rows", [3, 20])
def test_batches_are_in_order_however_they_are_shared_between_threads(cores, group_rows, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    store, out = memory_env().store, io.BytesIO()
    adds = [None, *({"stats": str(n), "path": "x"} for n in range(9)), None]
    pq.write_table(pa.table({"add": adds}), out, row_group_size=group_rows)
    store.put("f", out.getvalue())
    columns = NestedColumns(store, "f")
    found = columns.map_batches(("add", "stats"), lambda start, texts: (start, texts.to_pylist()), 2)
    assert [text for _, texts in found for text in texts] == [None, *map(str, range(9)), None]
    assert [start for start, _ in found] == list(
        itertools.accumulate((len(texts) for _, texts in found[:-1]), initial=0)
    )
    assert max(len(texts) for _, texts in found) == 2
    assert columns.map_batches(("add", "tags"), lambda start, texts: texts, 2) == []


# --- row counts


COUNTS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.integers(0, 9)
)
FIELDS = st.dictionaries(
    st.sampled_from(["numRecords", "minValues", "tightBounds", '"numRecords":1,']), COUNTS | st.just({"numRecords": 7})
)
ANY_TEXT = st.one_of(
    st.none(),
    st.sampled_from(
        [
            "",
            "x",
            "[]",
            "5",
            '{"numRecords" : 6 }',
            '"{\\"numRecords\\":1,}"',
            '{"numRecords":1',
            '{"numRecords":01}',
            '{"numRecords":00}',
            '{"numRecords":}',
        ]
    ),
    st.builds(
        lambda fields, compact: json.dumps(fields, separators=(",", ":") if compact else None), FIELDS, st.booleans()
    ),
)


@given(st.lists(ANY_TEXT, max_size=4))
@example(['{"numRecords":3,"minValues":{}}', None, '{"minValues":{"numRecords":7},"numRecords":4}'])
@settings(deadline=None)
def test_rows_are_counted_as_the_parser_of_all_statistics_does(texts):
    column = pa.chunked_array([texts, pa.array(["{", *texts], pa.string()).slice(1)], pa.string())
    assert record_counts(column).to_pylist() == parse_statistics(column, NONE).column("num_records").to_pylist()


@given(st.lists(st.text("a/.%:", max_size=5), max_size=3), st.integers(0, 2))
@example(["a:b", "a/b"], 0)
def test_paths_with_several_spellings_are_found_as_by_their_pattern(paths, start):
    column = pa.array(paths, pa.string()).slice(start)
    part = MemoryPart(pa.table({"path": column}))
    assert part.ambiguous.to_pylist() == pc.match_substring_regex(column, AMBIGUOUS).to_pylist()
