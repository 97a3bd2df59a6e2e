"""Offsets of a streaming source: how far a query has read a table. Pure.

The specification does not define them. Their JSON is the reference's to the byte, because Spark compares offsets as
texts, and a query may go from one implementation to the other with its checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tahoe.errors import OtherTableInStreamError, StreamOffsetFormatError, StreamOffsetVersionError

# The index before the first file of a version, and the two indexes at a change of the schema that the stream waits for.
BASE = -100
SCHEMA_CHANGE = -20
AFTER_SCHEMA_CHANGE = -19

# In offsets of the first format the base is written so.
_BASE_IN_JSON = -1

# The reference reserves the second format and refuses it. Ours are in it while the rows of a version are read in the
# order of event time, which the reference does not have.
_PLAIN, _WITH_EVENT_TIME, _WITH_SCHEMA_CHANGE = 1, 2, 3
_COLUMN, _BEFORE = "eventTimeColumn", "eventTimeMicros"
_NAMES = {"reservoirId": str, "reservoirVersion": int, "index": int, "isStartingVersion": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """All rows before a time have been read, and those without a time.

    Attributes:
        column: the path of the column with the event time.
        before_us: microseconds since 1970.
    """

    column: tuple[str, ...]
    before_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Everything up to and including a position has been read.

    Attributes:
        table_id: the id in the table's metadata.
        index: of the last file that was read of the version. Files of a commit are numbered in its order, files of an
            initial snapshot by modification time and path.
        is_initial: whether the position is in the initial snapshot of the version, and not in its commit.
        event_time: how far an initial snapshot is read that is read in the order of event time; its index is `BASE`.
    """

    table_id: str
    version: int
    index: int = BASE
    is_initial: bool = False
    event_time: EventTime | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.version, self.index

    def to_json(self) -> str:
        fields: dict[str, Any] = {
            "sourceVersion": self._format,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": _BASE_IN_JSON if self.index == BASE else self.index,
            "isStartingVersion": self.is_initial,
        }
        if self.event_time is not None:
            fields |= {_COLUMN: list(self.event_time.column), _BEFORE: self.event_time.before_us}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)

    @property
    def _format(self) -> int:
        if self.event_time is not None:
            return _WITH_EVENT_TIME
        return _WITH_SCHEMA_CHANGE if self.index in (SCHEMA_CHANGE, AFTER_SCHEMA_CHANGE) else _PLAIN


def parse_offset(text: str, table_id: str, *, table: str) -> StreamOffset:
    """An offset from the checkpoint of a query.

    Raises:
        StreamOffsetFormatError, StreamOffsetVersionError: the text is not an offset of a known format.
        OtherTableInStreamError: the offset is of another table than the one with `table_id`.
    """
    try:
        fields = json.loads(text)
    except ValueError:
        raise StreamOffsetFormatError(table=table, offset=text) from None
    number = fields.get("sourceVersion") if isinstance(fields, dict) else None
    if not _is_int(number):
        raise StreamOffsetFormatError(table=table, offset=text)
    if number not in (_PLAIN, _WITH_EVENT_TIME, _WITH_SCHEMA_CHANGE):
        raise StreamOffsetVersionError(table=table, version=number, newest=_WITH_SCHEMA_CHANGE)
    found = {name: fields.get(name) for name in _NAMES}
    if any(
        not (_is_int(found[name]) if kind is int else isinstance(found[name], kind)) for name, kind in _NAMES.items()
    ):
        raise StreamOffsetFormatError(table=table, offset=text)
    if found["reservoirId"] != table_id:
        raise OtherTableInStreamError(table=table, oldTableId=found["reservoirId"], newTableId=table_id)
    event_time = _event_time(fields) if number == _WITH_EVENT_TIME else None
    if number == _WITH_EVENT_TIME and (event_time is None or not found["isStartingVersion"]):
        raise StreamOffsetFormatError(table=table, offset=text)
    is_base = number != _WITH_SCHEMA_CHANGE and found["index"] == _BASE_IN_JSON
    return StreamOffset(
        table_id=table_id,
        version=found["reservoirVersion"],
        index=BASE if is_base else found["index"],
        is_initial=found["isStartingVersion"],
        event_time=event_time,
    )


def _event_time(fields: dict[str, Any]) -> EventTime | None:
    column: Any = fields.get(_COLUMN)
    before: Any = fields.get(_BEFORE)
    is_path = isinstance(column, list) and column and all(isinstance(name, str) for name in column)
    return EventTime(column=tuple(column), before_us=before) if is_path and _is_int(before) else None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
