"""Rows as a stream of Arrow batches, in pieces of bounded size. Knows nothing of Delta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

# The Arrow bytes of a row group: about as much as Spark's 128 MB of encoded values.
GROUP_BYTES = 256 << 20

# The bytes of new rows that are completed, checked and encoded together. Each piece becomes a row group.
_PIECE_BYTES = 128 << 20


class Rows:
    """Rows that can be read once.

    Attributes:
        num_rows: how many rows were read so far.
    """

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table]) -> None:
        self.schema, self._batches = schema, batches
        self.num_rows = 0

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        return cls(table.schema, [table])

    def pieces(self) -> Iterator[pa.Table]:
        """The rows, in tables of at most about `_PIECE_BYTES`. An error of the batches' source is raised as it is."""
        for piece in groups(map(_table, self._batches), _PIECE_BYTES):
            self.num_rows += piece.num_rows
            yield piece

    def read_all(self) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *self.pieces()])


def _table(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def groups(pieces: Iterable[pa.Table], most_bytes: int | None = None) -> Iterator[pa.Table]:
    """The rows in tables of at most so many bytes; by default, of about the size of a row group."""
    most_bytes = most_bytes or GROUP_BYTES
    waiting: list[pa.Table] = []
    size = 0
    for piece in pieces:
        for part in _parts(piece, most_bytes):
            if waiting and size + part.nbytes > most_bytes:
                yield pa.concat_tables(waiting)
                waiting, size = [], 0
            waiting.append(part)
            size += part.nbytes
    if waiting:
        yield pa.concat_tables(waiting)


def _parts(piece: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """A table in slices of at most so many bytes."""
    rows = max(1, piece.num_rows * most_bytes // max(1, piece.nbytes))
    for start in range(0, piece.num_rows, rows):
        yield piece.slice(start, rows)
