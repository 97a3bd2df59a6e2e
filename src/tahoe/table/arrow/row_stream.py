"""Rows as a stream of Arrow batches, in pieces of bounded size and in canonical form. Knows nothing of Delta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tahoe.errors import InvalidArgumentError
from tahoe.table.arrow.canonical import canonical_schema, canonical_table, decoded_bytes

# The Arrow bytes of a row group: about as much as Spark's 128 MB of encoded values.
GROUP_BYTES = 256 << 20

# The bytes of new rows that are completed, checked and encoded together. Each piece becomes a row group.
_PIECE_BYTES = 128 << 20


class Rows:
    """Rows that can be read once, or again if they are in memory.

    Attributes:
        schema: in canonical form, as the rows will be.
        num_rows: how many rows were read so far.
    """

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table]) -> None:
        self.schema, self._batches = canonical_schema(schema), batches
        self.num_rows = 0

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        return cls(table.schema, [table])

    @property
    def are_in_memory(self) -> bool:
        """Whether the rows can be read again."""
        return isinstance(self._batches, list)

    def pieces(self) -> Iterator[pa.Table]:
        """The rows, in tables of at most about `_PIECE_BYTES`. An error of the batches' source is raised as it is."""
        self.num_rows = 0
        parts = (part for batch in self._batches for part in _canonical_parts(_table(batch), _PIECE_BYTES))
        for piece in groups(parts, _PIECE_BYTES):
            self.num_rows += piece.num_rows
            yield piece

    def read_all(self) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *self.pieces()])


def _table(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def _canonical_parts(rows: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """Rows in canonical form, in tables that fit into Arrow's arrays."""
    if canonical_schema(rows.schema).equals(rows.schema):
        yield rows
        return
    for part in _slices(rows, most_bytes):
        yield from _canonical_halves(part, most_bytes)


def _canonical_halves(rows: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """Rows in canonical form: in one table, or in several if they are too large for one.

    Raises:
        InvalidArgumentError: the values of one row do not fit into an array.
    """
    half = rows.num_rows // 2
    if not half or decoded_bytes(rows) <= most_bytes:
        try:
            found = canonical_table(rows)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            if not half:
                raise _too_large(error) from error
        else:
            yield found
            return
    yield from _canonical_halves(rows.slice(0, half), most_bytes)
    yield from _canonical_halves(rows.slice(half), most_bytes)


def _too_large(error: pa.ArrowException) -> InvalidArgumentError:
    found, expected = (
        f"a row that does not fit into Arrow's arrays ({error})",
        "rows whose values have less than 2 GiB each",
    )
    remedy = "Nothing was changed; split or leave out the value."
    return InvalidArgumentError(argument="data", table="the table", found=found, expected=expected, remedy=remedy)


def groups(pieces: Iterable[pa.Table], most_bytes: int | None = None) -> Iterator[pa.Table]:
    """The rows in tables of at most so many bytes; by default, of about the size of a row group."""
    most_bytes = most_bytes or GROUP_BYTES
    waiting: list[pa.Table] = []
    size = 0
    for piece in pieces:
        for part in parts(piece, most_bytes):
            if waiting and size + part.nbytes > most_bytes:
                yield pa.concat_tables(waiting)
                waiting, size = [], 0
            waiting.append(part)
            size += part.nbytes
    if waiting:
        yield pa.concat_tables(waiting)


def parts(piece: pa.Table, most_bytes: int | None = None) -> Iterator[pa.Table]:
    """A table in slices of about so many bytes, by default the size of a row group; of twice as many at most, unless a
    row is larger.
    """
    most_bytes = most_bytes or GROUP_BYTES
    for part in _slices(piece, most_bytes):
        yield from _halves(part, 2 * most_bytes)


def _slices(piece: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """A table in slices of as many rows as there are in so many bytes on average."""
    rows = max(1, piece.num_rows * most_bytes // max(1, piece.nbytes))
    for start in range(0, piece.num_rows, rows):
        yield piece.slice(start, rows)


def _halves(part: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    if part.num_rows < 2 or part.nbytes <= most_bytes:
        yield part
        return
    half = part.num_rows // 2
    yield from _halves(part.slice(0, half), most_bytes)
    yield from _halves(part.slice(half), most_bytes)
