"""Offsets of streams: their JSON is the reference's to the byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import OtherTableInStreamError, StreamOffsetFormatError, StreamOffsetVersionError
from tahoe.protocol.streams.stream_offset import (
    AFTER_SCHEMA_CHANGE,
    BASE,
    SCHEMA_CHANGE,
    EventTime,
    StreamOffset,
    parse_offset,
)

TEXT = '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":9,"index":-1,"isStartingVersion":false}'


def test_the_text_is_that_of_the_reference() -> None:
    assert StreamOffset(table_id="t", version=9).to_json() == TEXT
    inside = StreamOffset(table_id="t", version=0, index=3, is_initial=True).to_json()
    assert inside == '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":0,"index":3,"isStartingVersion":true}'
    barrier = StreamOffset(table_id="t", version=4, index=SCHEMA_CHANGE).to_json()
    assert barrier == '{"sourceVersion":3,"reservoirId":"t","reservoirVersion":4,"index":-20,"isStartingVersion":false}'


INDEXES = st.integers(0, 1 << 40) | st.sampled_from([BASE, SCHEMA_CHANGE, AFTER_SCHEMA_CHANGE])


@given(st.text(min_size=1), st.integers(0, 1 << 40), st.lists(st.text(), min_size=1).map(tuple), st.integers())
def test_an_offset_in_the_order_of_event_time_is_read_as_it_was_written(
    table: str, version: int, column: tuple[str, ...], us: int
) -> None:
    offset = StreamOffset(
        table_id=table, version=version, is_initial=True, event_time=EventTime(column=column, before_us=us)
    )
    assert parse_offset(offset.to_json(), table, table="t") == offset
    assert json.loads(offset.to_json())["sourceVersion"] == 2, "the reference reads 1 and 3, and refuses 2"


@given(st.text(min_size=1), st.integers(0, 1 << 40), INDEXES, st.booleans())
def test_an_offset_is_read_as_it_was_written(table_id: str, version: int, index: int, is_initial: bool) -> None:
    offset = StreamOffset(table_id=table_id, version=version, index=index, is_initial=is_initial)
    assert parse_offset(offset.to_json(), table_id, table="t") == offset


def test_fields_may_be_in_any_order() -> None:
    fields = json.loads(TEXT)
    assert parse_offset(json.dumps(dict(reversed(fields.items()))), "t", table="t") == StreamOffset(
        table_id="t", version=9
    )


@pytest.mark.parametrize(
    "change",
    [{"index": "1"}, {"reservoirVersion": None}, {"isStartingVersion": 0}, {"sourceVersion": "1"}, {"index": True}],
)
def test_other_texts_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(StreamOffsetFormatError):
        parse_offset(json.dumps({**json.loads(TEXT), **change}), "t", table="t")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"eventTimeMicros": 1},
        {"eventTimeColumn": ["t"]},
        {"eventTimeColumn": "t", "eventTimeMicros": 1},
        {"eventTimeColumn": [], "eventTimeMicros": 1},
        {"eventTimeColumn": ["t"], "eventTimeMicros": 1, "isStartingVersion": False},
    ],
)
def test_an_event_time_is_whole(change: dict[str, object]) -> None:
    with pytest.raises(StreamOffsetFormatError):
        parse_offset(
            json.dumps({**json.loads(TEXT), "sourceVersion": 2, "isStartingVersion": True, **change}), "t", table="t"
        )


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"a": 1}'])
def test_texts_that_are_no_offsets_are_refused(text: str) -> None:
    with pytest.raises(StreamOffsetFormatError):
        parse_offset(text, "t", table="t")


@pytest.mark.parametrize("version", [0, 4])
def test_unknown_formats_are_refused(version: int) -> None:
    with pytest.raises(StreamOffsetVersionError, match=str(version)):
        parse_offset(json.dumps({**json.loads(TEXT), "sourceVersion": version}), "t", table="t")


def test_the_offset_of_another_table_is_refused() -> None:
    with pytest.raises(OtherTableInStreamError, match="replaced"):
        parse_offset(TEXT, "other", table="t")
