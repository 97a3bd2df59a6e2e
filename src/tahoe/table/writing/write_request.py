"""What a user asks of a write, and the data files that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tahoe.protocol.schema import Struct

Mode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]


# The operation of every write that does not make a table.
WRITE = "WRITE"


TRUNCATE = "TRUNCATE"


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """What the user asked for.

    Attributes:
        schema: of the data, with logical names.
        partition_by: None where nothing was said.
        cluster_by: the paths of columns by which a new table is clustered; None where nothing was said.
        properties: `delta.*` options and other table properties; used for a new or a replaced table.
        default_properties: what a new table gets besides.
        replace_where: SQL text: only matching rows are replaced. Over partition columns, unless `finds_rows`.
        finds_rows: whether the engine that writes can find and delete rows, so that replace_where may name any column.
        matching: how the engine that writes finds the rows that are replaced, by rows of the data: for the history.
        dynamic_partitions: only partitions that the data has are replaced.
        txn: application id and version; a version already recorded makes the write a no-op.
        reads_target: the rows are a query's that reads the table itself, so that what other writers do to it matters.
        is_managed: whether the folder belongs to a name in a catalog; only the history tells.
        keep_nullability: NOT NULL columns of the data stay so in a new table, as in DDL and Arrow; DataFrames make all columns nullable.
    """

    mode: Mode
    schema: Struct
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[tuple[str, ...], ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    default_properties: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool = False
    overwrite_schema: bool = False
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
    operation: str = WRITE
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A data file that was written for a plan.

    Attributes:
        key: relative to the table, unescaped.
        partition_values: serialised, by physical name.
        statistics: JSON text, by physical names; None where there are none.
        minted: the value farthest from the start, of each identity column that the write gave numbers to, by logical name.
    """

    key: str
    size_bytes: int
    modification_time_ms: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    statistics: str | None = None
    minted: Mapping[str, int] = field(default_factory=dict)
