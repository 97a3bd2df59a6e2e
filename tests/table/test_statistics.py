"""Typed statistics are read once for the queries that name the same columns."""

from __future__ import annotations

import pyarrow as pa

from tahoe.protocol.schema import LONG, STRING
from tahoe.table.arrow import statistics
from tahoe.table.arrow.statistics import StatisticsCache, StatisticsRequest, parse_statistics

TEXTS = pa.chunked_array(
    [
        [
            '{"numRecords":2,"minValues":{"a":1,"b":"x"},"maxValues":{"a":5,"b":"y"},"nullCount":{"a":0,"b":1}}',
            None,
            '{"numRecords":1,"minValues":{"a":7},"maxValues":{"a":7},"nullCount":{"a":0}}',
        ]
    ]
)
A, B, BOTH, NONE = (StatisticsRequest(dict(c)) for c in ([(("a",), LONG)], [(("b",), STRING)], [(("b",), STRING), (("a",), LONG)], []))


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
    monkeypatch.setattr(statistics, "KEPT_BYTES_MAX", 1)
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
