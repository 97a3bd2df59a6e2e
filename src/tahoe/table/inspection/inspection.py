"""What an inspection of a table is: a name, the columns of its answer, and a function of a snapshot. Knows nothing of
what is inspected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tahoe._notebook_tables import MARK
from tahoe.table.reading.snapshot import Snapshot

TIME = pa.timestamp("ms", "UTC")
TEXTS = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of an inspection.

    Attributes:
        type: its Arrow type; a text that describes it if it depends on the table.
        meaning: what a value is, with its unit, and when it is null.
    """

    name: str
    type: pa.DataType | str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One way to look into a table.

    Attributes:
        name: the method of `Table.inspect`, the argument of `tahoe inspect`, and after `delta_` the table function in
            SQL.
        rows: what a row is, for help and documentation.
        columns: of the answer, in order.
        read: the columns by name, from a snapshot.
    """

    name: str
    rows: str
    columns: Sequence[Column]
    read: Callable[[Snapshot], Mapping[str, Any]] = field(repr=False)

    def of(self, snapshot: Snapshot) -> pa.Table:
        """Look into one version of a table. Structs without fields are left out: no format of files has them."""
        found = self.read(snapshot)
        types = {c.name: found[c.name].type if isinstance(c.type, str) else c.type for c in self.columns}
        fields = [
            pa.field(name, kind) for name, kind in types.items() if not pa.types.is_struct(kind) or kind.num_fields
        ]
        schema = pa.schema(fields, metadata={MARK: self.name})
        return pa.table({field.name: found[field.name] for field in fields}, schema=schema)


def from_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> dict[str, pa.Array]:
    """The columns of an answer that is made of few rows. A mapping in a row becomes a map."""
    return {column.name: pa.array([_value(row[column.name]) for row in rows], column.type) for column in columns}


def _value(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) else value
