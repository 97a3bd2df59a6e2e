"""The output columns of a relation as SQL over our scan: columns of the table, and fields of `_metadata`.

Spark provides the fields of `_metadata` about files and row indexes. Row ids and row commit versions are computed from
hidden columns of the scan: constants of each file, and columns of the data files that are not in the table's schema.

Protocol: "Row Tracking".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tahoe.protocol.configuration.row_tracking import (
    BASE_ROW_ID,
    DEFAULT_ROW_COMMIT_VERSION,
    METADATA,
    METADATA_FIELDS,
    ROW_COMMIT_VERSION,
    ROW_ID,
    RowTracking,
)
from tahoe.protocol.types.names import quoted

# The field of `_metadata` with which commands find rows again: the row's file number in the version, and its row index.
POSITION = "position"
ROW_BITS = 36  # the bits of a position for the row index; the other bits suffice for the files of any table

# The position of a row's file in the snapshot.
NUMBER = "number"

# The hidden partition columns with values from the log about a row's file, and the column of `Scan.files` for each.
FILE_CONSTANTS = {f"__tahoe_{name}": name for name in (BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION, NUMBER)}
_HIDDEN = {name: hidden for hidden, name in FILE_CONSTANTS.items()}

# The column that Spark's Parquet reader fills with the row index. `_metadata.row_index` would build and read a struct
# for each row.
ROW_INDEX = "_tmp_metadata_row_index"

# The name of the result's `_metadata` while the scan's own `_metadata` is in scope.
_SCANNED = "__tahoe_metadata"

# Spark's metadata key that marks generated columns. It distinguishes `_metadata` from a table's own column of this
# name.
_MADE_UP = "__metadata_col"


@dataclass(frozen=True, slots=True)
class Output:
    """The output columns of a relation.

    Attributes:
        columns: fields of a schema's JSON; `_metadata`, if present, has only the fields that the query uses.
        tracking: the table's row tracking, with the columns of materialised row ids and commit versions; None without
            row tracking.
    """

    columns: tuple[Mapping[str, Any], ...]
    tracking: RowTracking | None = None

    @property
    def tracking_fields(self) -> tuple[str, ...]:
        """The requested fields of `_metadata` that need row tracking."""
        return tuple(name for name in METADATA_FIELDS if name in self._parts)

    @property
    def is_hidden(self) -> bool:
        """Whether a field of `_metadata` is requested that Spark's own scan does not provide."""
        return bool(self.tracking_fields) or POSITION in self._parts

    @property
    def partitions(self) -> tuple[str, ...]:
        """The hidden partition columns that the scan needs."""
        names = (
            *((BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION) if self.tracking_fields else ()),
            *((NUMBER,) if POSITION in self._parts else ()),
        )
        return tuple(_HIDDEN[name] for name in names)

    def data(self, *, indexed: bool = False) -> tuple[str, ...]:
        """The hidden data columns that the scan needs. `indexed`: the scan needs the row index in any case."""
        columns = self._materialised_column(ROW_ID), self._materialised_column(ROW_COMMIT_VERSION)
        is_indexed = (indexed or ROW_ID in self._parts or POSITION in self._parts) and self.row_index == ROW_INDEX
        return (*(name for name in columns if name is not None), *((ROW_INDEX,) if is_indexed else ()))

    @property
    def row_index(self) -> str:
        """The row index, as SQL. Spark does not allow both of its forms in one scan."""
        return f"{METADATA}.row_index" if "row_index" in self._parts else ROW_INDEX

    @property
    def scan_columns(self) -> list[str]:
        """The columns, as SQL over the scan; `_metadata` has a temporary name, which Spark does not use itself."""
        return [self._metadata() if _is_metadata(c) else quoted(c["name"]) for c in self.columns]

    @property
    def final_columns(self) -> list[str]:
        """The columns, as SQL over the result of `scan_columns`, under their final names."""
        return [f"{_SCANNED} as {quoted(c['name'])}" if _is_metadata(c) else quoted(c["name"]) for c in self.columns]

    @property
    def _parts(self) -> tuple[str, ...]:
        return next((tuple(part["name"] for part in c["type"]["fields"]) for c in self.columns if _is_metadata(c)), ())

    def _metadata(self) -> str:
        parts = [f"'{name}', {self._part(name)}" for name in self._parts]
        return f"named_struct({', '.join(parts)}) as {_SCANNED}"

    def _part(self, name: str) -> str:
        match name:
            case "row_id":
                return self._or_default(name, f"{_HIDDEN[BASE_ROW_ID]} + {self.row_index}")
            case "row_commit_version":
                return self._or_default(name, _HIDDEN[DEFAULT_ROW_COMMIT_VERSION])
            case "position":
                return f"shiftleft({_HIDDEN[NUMBER]}, {ROW_BITS}) | {self.row_index}"
            case _:
                return _HIDDEN.get(name) or f"{METADATA}.{name}"

    def _or_default(self, name: str, default: str) -> str:
        column = self._materialised_column(name)
        return default if column is None else f"coalesce({quoted(column)}, {default})"

    def _materialised_column(self, name: str) -> str | None:
        """The column of data files with the materialised values of a field; None if it is not requested or does not
        exist.
        """
        if self.tracking is None or name not in self._parts:
            return None
        return self.tracking.row_id_column if name == ROW_ID else self.tracking.row_commit_version_column


def output_of(schema: str, tracking: RowTracking | None) -> Output:
    """The output with the columns of a schema's JSON."""
    return Output(tuple(json.loads(schema)["fields"]), tracking)


def hidden_fields(tracking: RowTracking | None, *, positioned: bool) -> tuple[str, ...]:
    """The fields of `_metadata` in addition to Spark's own."""
    return (*(METADATA_FIELDS if tracking is not None else ()), *((POSITION,) if positioned else ()))


def metadata_schema(hidden: Sequence[str]) -> str:
    """The additional fields of `_metadata` as a schema's JSON. They are nullable, because a file may lack the values
    for them.
    """
    return json.dumps({"type": "struct", "fields": [hidden_field(name) for name in hidden]})


def hidden_field(name: str) -> dict[str, Any]:
    """A field of type long, as JSON."""
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}


def _is_metadata(column: Mapping[str, Any]) -> bool:
    return bool(column["metadata"].get(_MADE_UP) == METADATA)
