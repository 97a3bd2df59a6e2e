"""Clustering on write: the rows of a large append or overwrite of a clustered table are laid out before they are
written, as one cube.

A sample of the rows plans the layout in the driver. Spark computes the part of the layout to which each row belongs,
brings the rows of each file into one task, and sorts them there by part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    DataType,
    GeographyType,
    GeometryType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from tahoe.protocol.configuration.properties import TARGET_FILE_SIZE
from tahoe.protocol.log.cubes import cube_leaves, cube_tags
from tahoe.protocol.types.names import dotted, quoted, unused_name
from tahoe.spark.writing.file_sizes import ClusterOnWrite
from tahoe.table.arrow.layout import plan_layout
from tahoe.table.arrow.layout_sql import leaf_steps
from tahoe.table.arrow.sort_keys import TEXT_CHARACTERS
from tahoe.table.layout.laying_out import PART, parts_of_file, sample_rows
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WrittenFile

# Rows of the first sample. Fewer than `_ROWS_MIN` rows are not laid out.
_FIRST_SAMPLE_ROWS = 1 << 16
_ROWS_MIN = 1 << 10

# If Spark's estimate asks for a smaller share of the rows, it is probably none: rows are counted first.
_SHARE_MIN = 1e-4

# The driver plans a layout of so many rows in a few seconds.
_SAMPLE_ROWS_MAX = 1 << 18

# Values are so many times as large in memory as in files, about.
_COMPRESSION = 4

# Of a value without a length, and of any value before rows are seen.
_VALUE_BYTES = 8

# The name of a sample's last column.
_SIZE = "size"


@dataclass(kw_only=True)
class CubeOnWrite:
    """Lays out the rows of one write.

    Attributes:
        cube: the id of the cube that the files become; None as long as no rows were laid out.
    """

    plan: WritePlan
    asked: ClusterOnWrite
    cube: str | None = field(default=None, init=False)

    def lay_out(self, read_rows: Callable[[], DataFrame], estimated_bytes: int) -> DataFrame | None:
        """The rows of each file in one task, in order; None if there are too few for several files.

        Args:
            read_rows: returns the rows to write. Sampling evaluates them once, and again if the estimate is wrong.
            estimated_bytes: their size as Spark estimates it before it runs the query.
        """
        if estimated_bytes < self.asked.min_bytes:
            return None
        rows = read_rows()
        keys = [".".join(map(quoted, path)) for path in self.plan.clustering_columns]
        count, sample = _count_and_sample(rows, keys, estimated_bytes)
        if sample is None:
            return None
        files = self._files(round(count * pc.mean(sample.column(_SIZE)).as_py() / _COMPRESSION))
        if files < 2:
            return None
        parts = min(parts_of_file(count, files), max(_SAMPLE_ROWS_MAX // sample_rows(files, 1), 1))
        sample_size = min(sample_rows(files, parts), _SAMPLE_ROWS_MAX, count)
        if sample.num_rows < sample_size // 2:
            sample = _sample(rows, keys, sample_size / count)
        self.cube = self.plan.table.env.new_id()
        return rows_of_files(rows, sample.drop_columns(_SIZE), keys, files, parts, _number_by_content(rows.schema))

    def _files(self, size: int) -> int:
        """Into how many files rows are laid out that take this many bytes as files; 1 if they are too few for a
        layout.
        """
        if size < self.asked.min_bytes:
            return 1
        target = TARGET_FILE_SIZE.get(self.plan.metadata.configuration, table=self.plan.url) or self.asked.file_bytes
        snapshot, is_added = self.plan.snapshot, self.plan.request.mode == "append"
        before = snapshot.full_scan.size_bytes if snapshot is not None and is_added else 0
        return cube_leaves(size, before + size, target)

    def tagged(self, file: WrittenFile) -> WrittenFile:
        """A file that was written, with the tags by which OPTIMIZE knows the cube."""
        return (
            file
            if self.cube is None
            else replace(file, tags=cube_tags(self.cube, [dotted(p) for p in self.plan.clustering_columns]))
        )


# --- samples


def _count_and_sample(rows: DataFrame, keys: Sequence[str], estimated_bytes: int) -> tuple[int, pa.Table | None]:
    """The number of rows, about, and a first sample; no sample of fewer than `_ROWS_MIN` rows."""
    share = min(1.0, _FIRST_SAMPLE_ROWS * _VALUE_BYTES * len(rows.schema) / estimated_bytes)
    if share >= _SHARE_MIN:
        sample = _sample(rows, keys, share)
        if sample.num_rows >= _ROWS_MIN:
            return round(sample.num_rows / share), sample
    count = rows.count()
    return count, _sample(rows, keys, min(1.0, _FIRST_SAMPLE_ROWS / count)) if count >= _ROWS_MIN else None


def _sample(rows: DataFrame, keys: Sequence[str], share: float) -> pa.Table:
    """The columns of an order, named by their numbers, and the size of each row in memory, in bytes."""
    size = " + ".join(_bytes(quoted(f.name), f.dataType) for f in rows.schema)
    return rows.sample(fraction=share, seed=0).select(*sample_columns(rows, keys), F.expr(size).alias(_SIZE)).toArrow()


def sample_columns(rows: DataFrame, keys: Sequence[str]) -> list[Column]:
    """The columns of an order, named by their numbers: of a text only what counts, so that a sample of long texts fits
    into the driver.
    """
    types = [field.dataType for field in rows.select(*keys).schema]
    columns = [
        F.substring(key, 1, TEXT_CHARACTERS) if isinstance(kind, StringType) else F.col(key)
        for key, kind in zip(keys, types, strict=True)
    ]
    return [column.alias(str(number)) for number, column in enumerate(columns)]


def _bytes(value: str, kind: DataType) -> str:
    """The size of a value in SQL, in bytes, as an estimate."""
    match kind:
        case StringType() | BinaryType():
            return f"coalesce(octet_length({value}), 0)"
        case GeometryType() | GeographyType():
            return f"coalesce(octet_length(st_asbinary({value})), 0)"
        case ArrayType() | MapType() | VariantType():
            return f"coalesce(octet_length(to_json({value})), 0)"
        case StructType(fields=fields):
            return " + ".join(["0", *(_bytes(f"{value}.{quoted(f.name)}", f.dataType) for f in fields)])
        case _:
            return str(_VALUE_BYTES)


def _number_by_content(schema: StructType) -> str:
    """A number of each row, in SQL: equal rows may have the same, and it is the same when a task is repeated."""
    names = [
        quoted(f.name) for f in schema if isinstance(f.dataType, AtomicType) and not isinstance(f.dataType, VariantType)
    ]
    return f"xxhash64({', '.join(names)})" if names else "monotonically_increasing_id()"


def rows_of_files(
    rows: DataFrame,
    sample: pa.Table,
    keys: Sequence[str],
    files: int,
    parts: int,
    number: str,
    partitions: Sequence[Column] = (),
) -> DataFrame:
    """The rows of each new file in one task, in order.

    Args:
        sample: of the columns by which rows are laid out.
        keys: these columns in SQL.
        parts: per file.
        number: a number of each row in SQL, the same when a task is repeated: it chooses among files that share equal
            rows.
        partitions: the partition columns. The writer would sort rows by them if they were not already sorted so.
    """
    part = unused_name(PART, rows.columns)
    for step in leaf_steps(plan_layout(sample, files, parts), keys, part, number):
        rows = rows.withColumn(part, F.expr(step))
    by = F.col(keys[0]) if len(keys) == 1 else F.col(part)
    return (
        rows.repartitionById(files, F.expr(f"cast({part} div {parts} as int)"))
        .sortWithinPartitions(*partitions, by)
        .drop(part)
    )
