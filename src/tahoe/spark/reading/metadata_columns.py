"""What a query asks of a relation, as SQL over a scan of ours: columns of the table, and parts of `_metadata`.

Of `_metadata` Spark knows the parts that tell of files and places in them. Row ids and row commit versions are made of hidden columns of
the scan: constants of each file, and columns of the data files that are not in the table's schema.

Protocol: "Row Tracking".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tahoe.protocol.names import quoted
from tahoe.protocol.row_tracking import (
    BASE_ROW_ID,
    DEFAULT_ROW_COMMIT_VERSION,
    METADATA,
    METADATA_FIELDS,
    ROW_COMMIT_VERSION,
    ROW_ID,
    RowTracking,
)

# The field of `_metadata` by which commands find rows again: the number of its file in the version, and its place in that.
POSITION = "position"
ROW_BITS = 36  # of a position; what is left takes more files than any table has

# The hidden partition columns that tell what the log says of a row's file: the column of `Scan.files` that each is.
_NUMBER = "number"
FILE_CONSTANTS = {f"__tahoe_{name}": name for name in (BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION, _NUMBER)}
_HIDDEN = {name: hidden for hidden, name in FILE_CONSTANTS.items()}

# The name under which Spark's Parquet reader makes up a row's position in its file. By way of `_metadata.row_index` it would be put into
# a struct and taken out again, for each row.
ROW_INDEX = "_tmp_metadata_row_index"

# What `_metadata` is called while the scan's own is in scope.
_SCANNED = "__tahoe_metadata"

# Under this key Spark notes what a column that it has made up is called: a table may have a `_metadata` of its own.
_MADE_UP = "__metadata_col"


@dataclass(frozen=True, slots=True)
class Output:
    """The columns that a relation of Spark's would give.

    Attributes:
        columns: fields of a schema's JSON; `_metadata`, if it is there, with the fields in use.
        tracking: where the table's files keep what is asked of row tracking; None where nothing is.
    """

    columns: tuple[Mapping[str, Any], ...]
    tracking: RowTracking | None = None

    @property
    def tracked(self) -> tuple[str, ...]:
        """What is asked for that only row tracking tells."""
        return tuple(name for name in METADATA_FIELDS if name in self._parts)

    @property
    def is_hidden(self) -> bool:
        """Whether something is asked for that Spark's own scan does not tell."""
        return bool(self.tracked) or POSITION in self._parts

    @property
    def partitions(self) -> tuple[str, ...]:
        """The hidden constants of files that the scan must have."""
        wanted = (*((BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION) if self.tracked else ()), *((_NUMBER,) if POSITION in self._parts else ()))
        return tuple(_HIDDEN[name] for name in wanted)

    def data(self, *, indexed: bool = False) -> tuple[str, ...]:
        """The hidden columns of data files that the scan must have, with the rows' places in their files where these are wanted."""
        wanted = self._kept(ROW_ID), self._kept(ROW_COMMIT_VERSION)
        is_indexed = (indexed or ROW_ID in self._parts or POSITION in self._parts) and self.row_index == ROW_INDEX
        return (*(name for name in wanted if name is not None), *((ROW_INDEX,) if is_indexed else ()))

    @property
    def row_index(self) -> str:
        """A row's place in its file, as SQL. Spark refuses to be asked for it in two ways."""
        return f"{METADATA}.row_index" if "row_index" in self._parts else ROW_INDEX

    @property
    def scanned(self) -> list[str]:
        """The columns, as expressions over the scan; `_metadata` under a name that Spark does not make up itself."""
        return [self._metadata() if _is_metadata(c) else quoted(c["name"]) for c in self.columns]

    @property
    def named(self) -> list[str]:
        """The same columns under the names that the relation gives them."""
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
                return f"shiftleft({_HIDDEN[_NUMBER]}, {ROW_BITS}) | {self.row_index}"
            case _:
                return _HIDDEN.get(name) or f"{METADATA}.{name}"

    def _or_default(self, name: str, default: str) -> str:
        kept = self._kept(name)
        return default if kept is None else f"coalesce({quoted(kept)}, {default})"

    def _kept(self, name: str) -> str | None:
        """The column of data files with what rows brought with them; None where it is not asked for, or where there is none."""
        if self.tracking is None or name not in self._parts:
            return None
        return self.tracking.row_id_column if name == ROW_ID else self.tracking.row_commit_version_column


def output_of(schema: str, tracking: RowTracking | None) -> Output:
    """The output that a schema's JSON tells."""
    return Output(tuple(json.loads(schema)["fields"]), tracking)


def hidden_fields(tracking: RowTracking | None, *, positioned: bool) -> tuple[str, ...]:
    """The fields that `_metadata` has beside Spark's own."""
    return (*(METADATA_FIELDS if tracking is not None else ()), *((POSITION,) if positioned else ()))


def metadata_schema(hidden: Sequence[str]) -> str:
    """The fields that `_metadata` has beside Spark's own, as the JSON of a schema. A file may lack what they are made of."""
    return json.dumps({"type": "struct", "fields": [hidden_field(name) for name in hidden]})


def hidden_field(name: str) -> dict[str, Any]:
    """A field of type long, as JSON."""
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}


def _is_metadata(column: Mapping[str, Any]) -> bool:
    return bool(column["metadata"].get(_MADE_UP) == METADATA)
