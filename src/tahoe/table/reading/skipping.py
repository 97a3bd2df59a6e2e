"""Skips files in bulk: evaluates a test on statistics over columns; and tells the files that partition values decide.

Protocol: "Per-file Statistics". `tahoe.protocol.statistics.skipping` defines the test and evaluates it for one file;
this module gives the same results. A file without the needed statistics is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.configuration.column_mapping import physical_schema
from tahoe.protocol.statistics.skipping import skipping_test
from tahoe.protocol.statistics.stat_tests import (
    KEEP,
    Always,
    Both,
    Bound,
    Either,
    HasNulls,
    HasValues,
    IsVaried,
    Leaf,
    MayHoldInside,
    OneOf,
    OnPartition,
    Overlaps,
    StatTest,
    paths_in,
)
from tahoe.protocol.types.predicate import Predicate, has_unknown, known_by
from tahoe.protocol.types.schema import DataType, Struct
from tahoe.table.arrow.chunks import one_array
from tahoe.table.arrow.statistics import Path, StatisticsRequest, column_name, variants_of_texts
from tahoe.table.reading.evaluation import compare, evaluate, overlap
from tahoe.table.reading.rows import no_columns
from tahoe.table.reading.snapshot_state import SnapshotState


def test_of(snapshot: SnapshotState, predicate: Predicate) -> StatTest | None:
    """The test on statistics for a predicate; None if it keeps every file."""
    test = skipping_test(predicate, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping_mode)
    return None if test == KEEP else test


def file_mask(snapshot: SnapshotState, test: StatTest, *, read_partition: Callable[[], pa.ChunkedArray]) -> pa.Array:
    """The files that a test keeps, as a mask over the snapshot's files.

    Args:
        read_partition: the typed partition values of all files; called only if needed.
    """
    request = StatisticsRequest(types_of(snapshot, paths_in(test)))
    statistics = snapshot.live.statistics(request) if request.columns else None
    return one_array(_Evaluator(len(snapshot.live), statistics, read_partition).test(test))


def decided_by_partition(snapshot: SnapshotState, predicate: Predicate, partition: pa.ChunkedArray) -> pa.Array:
    """Whether a predicate is true for all rows of a file (true) or for none (false); null if its partition values do
    not decide it.

    Statistics are not used: those of another writer may be wrong, and nobody looks at the rows of a file that is
    decided.

    Args:
        partition: the typed partition values of the files.

    Raises:
        ExpressionFailedError: a part has no value for a file's partition values.
    """
    known = known_by(predicate, snapshot.partition_columns)
    decided = evaluate(known, _as_table(partition), table=snapshot.url)
    return decided if has_unknown(known) else pc.fill_null(decided, False)


def types_of(snapshot: SnapshotState, paths: frozenset[Path]) -> dict[Path, DataType]:
    physical = physical_schema(snapshot.schema, snapshot.column_mapping_mode)
    return {path: _type_at(physical, path) for path in sorted(paths)}


def _type_at(schema: Struct, path: Path) -> DataType:
    fields = schema.resolve(path)
    assert fields is not None, f"no column {path}"
    return fields[-1].type


class _Evaluator:
    """Evaluates one test; every result is a mask without nulls."""

    def __init__(self, rows: int, statistics: pa.Table | None, read_partition: Callable[[], pa.ChunkedArray]) -> None:
        self._rows, self._statistics, self._read_partition = rows, statistics, read_partition

    def test(self, test: StatTest) -> pa.Array:
        match test:
            case Always(keep):
                return pa.repeat(pa.scalar(keep), self._rows)
            case Both(parts):
                return reduce(pc.and_, map(self.test, parts))
            case Either(parts):
                return reduce(pc.or_, map(self.test, parts))
            case OnPartition(predicate):
                return pc.fill_null(evaluate(predicate, _as_table(self._read_partition())), False)
            case _:
                return pc.fill_null(self._leaf(test), True)

    def _leaf(self, test: Leaf) -> pa.Array:
        """Whether each file may match, by its statistics; null where they are missing, which `test` takes for true."""
        match test:
            case HasNulls(path):
                return pc.not_equal(self._column("null_count", path), 0)
            case HasValues(path):
                return pc.not_equal(self._column("null_count", path), self._column("num_records"))
            case IsVaried(path, value):
                same = [compare("=", self._column(bound, path), value) for bound in ("min", "max")]
                return pc.invert(pc.and_(*same))
            case OneOf(bound, path, values):
                return _is_in(self._column(bound, path), values)
            case Overlaps(path, least, greatest):
                return overlap(self._column("min", path), self._column("max", path), least, greatest)
            case Bound(bound, path, operator, value):
                return compare(operator, self._column(bound, path), value)
            case MayHoldInside(path):
                ends = (variants_of_texts(self._column(bound, path)) for bound in ("min", "max"))
                return pa.array(list(map(test.passes, *ends)), pa.bool_())

    def _column(self, kind: str, path: Path = ()) -> pa.ChunkedArray:
        assert self._statistics is not None
        name = column_name(kind, path)
        return self._statistics.column(name)


def _is_in(column: pa.ChunkedArray, values: frozenset[Any]) -> pa.Array:
    """Like `pc.is_in`, but null where the column is null."""
    found = pc.is_in(column, value_set=pa.array(sorted(values), column.type))
    return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))


def _as_table(partition: pa.ChunkedArray) -> pa.Table:
    names = [f.name for f in partition.type]
    return pa.table(partition.flatten(), names=names) if names else no_columns(len(partition))
