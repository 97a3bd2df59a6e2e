"""What a user asks of a write, and the data files that were written for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tahoe.protocol.types.schema import Struct
from tahoe.table.writing.casts import Casts

Mode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]


# The operation name of every write that does not create a table.
WRITE = "WRITE"


TRUNCATE = "TRUNCATE"


# The operation name of a batch of a stream.
STREAMING_UPDATE = "STREAMING UPDATE"


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """The options of a write as the user gave them.

    Attributes:
        schema: of the data, with logical names.
        partition_by: None if not specified.
        cluster_by: the paths of a new table's clustering columns; None if not specified.
        properties: `delta.*` options and other table properties; used for a new or a replaced table.
        default_properties: additional properties of a new table, overridden by `properties`.
        casts: which data of another type than the column's the writer casts; other data is refused.
        replace_where: SQL text: only matching rows are replaced. Over partition columns, unless `finds_rows`.
        finds_rows: whether the writing engine can find and delete rows, so that replace_where may name any column.
        matching: for the history: how the writing engine matches the rows to replace with rows of the data.
        dynamic_partitions: only partitions that the data has are replaced.
        txn: application id and version; a version already recorded makes the write a no-op.
        reads_target: the rows come from a query that reads the table itself, so concurrent changes of it may conflict.
        is_managed: whether the table is managed by a catalog; only for the history.
        parameters: for the history; None for those of the operation.
        keep_nullability: NOT NULL columns of the data stay so in a new table, as in DDL and Arrow; DataFrames make all
            columns nullable.
    """

    mode: Mode
    schema: Struct
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[tuple[str, ...], ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    default_properties: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool = False
    overwrite_schema: bool = False
    casts: Casts = Casts.ANY
    replace_where: str | None = None
    matching: str | None = None
    dynamic_partitions: bool = False
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    comment: str | None = None
    data_change: bool = True
    keep_nullability: bool = False
    reads_target: bool = False
    finds_rows: bool = False
    is_managed: bool = False
    parameters: Mapping[str, str] | None = None
    operation: str = WRITE
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A data file that was written for a plan.

    Attributes:
        key: relative to the table, unescaped.
        partition_values: serialised, by physical name.
        statistics: JSON text, by physical names; None if there are none.
        minted: by logical name, the last identity value of each identity column for which the write allocated values.
        tags: of a file that was laid out as a part of a cube.
    """

    key: str
    size_bytes: int
    modification_time_ms: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    statistics: str | None = None
    minted: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
