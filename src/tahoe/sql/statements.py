"""Delta's own SQL statements, which Spark's parser does not know, as frozen records. `grammar` parses them.

A record contains exactly what was written: names as their parts, and values and conditions as verbatim text with their
offset, for the caller to evaluate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Expression:
    """The verbatim text of a part of a statement, usually an expression; `start` is its offset in the statement."""

    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A reference to a table: exactly one of the parts of its name, a path, or the argument of IDENTIFIER(...)."""

    parts: tuple[str, ...] = ()
    path: str | None = None
    expression: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """Time travel: either a version, which may be the name of a tag, or a timestamp."""

    version: Expression | None = None
    timestamp: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumn:
    """A column and the verbatim text of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeHistory:
    """DESCRIBE HISTORY table [LIMIT n]"""

    table: Name
    limit: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDetail:
    """DESCRIBE DETAIL table"""

    table: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """VACUUM table [LITE | FULL] [USING INVENTORY (table | (query))] [RETAIN n HOURS] [DRY RUN], with options in any
    order
    """

    table: Name
    mode: Literal["LITE", "FULL"] | None = None
    inventory: Name | None = None
    inventory_query: Expression | None = None
    retain_hours: Expression | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY columns]"""

    table: Name
    full: bool = False
    where: Expression | None = None
    zorder_by: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSelect:
    """CACHE SELECT * | columns FROM table [WHERE condition]; no columns are all."""

    table: Name
    columns: tuple[tuple[str, ...], ...] = ()
    where: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyInto:
    """COPY INTO table [BY POSITION | (columns)] FROM source | (SELECT expressions FROM source) FILEFORMAT = format and
    its clauses

    Attributes:
        select: the verbatim expressions; None for all columns.
        validate_rows: how many rows VALIDATE looks at; None for all.
    """

    table: Name
    source: Expression
    format: str
    by_position: bool = False
    columns: tuple[str, ...] | None = None
    select: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None
    pattern: str | None = None
    format_options: tuple[tuple[str, str], ...] = ()
    copy_options: tuple[tuple[str, str], ...] = ()
    validate: bool = False
    validate_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStatistics:
    """ANALYZE TABLE table COMPUTE DELTA STATISTICS"""

    table: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Fsck:
    """FSCK REPAIR TABLE table [METADATA ONLY | VERIFY ALL FILES] [DRY RUN]"""

    table: Name
    metadata_only: bool = False
    verify_all_files: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """GENERATE mode FOR TABLE table"""

    table: Name
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertToDelta:
    """CONVERT TO DELTA table [NO STATISTICS] [PARTITIONED BY (column type, ...)]"""

    table: Name
    statistics: bool = True
    partition_by: tuple[PartitionColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """RESTORE [TABLE] table [TO] [FOR] VERSION | TIMESTAMP AS OF value"""

    table: Name
    as_of: AsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] target SHALLOW | DEEP CLONE source [as of] [TBLPROPERTIES (...)]
    [LOCATION path]
    """

    target: Name
    source: Name
    is_shallow: bool
    creates: bool = True
    replaces: bool = False
    if_not_exists: bool = False
    as_of: AsOf = AsOf()
    properties: tuple[tuple[str, str], ...] = ()
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTag:
    """ALTER TABLE table CREATE [OR REPLACE] TAG name [as of] [EXPIRES timestamp]"""

    table: Name
    tag: str
    replaces: bool = False
    as_of: AsOf = AsOf()
    expires: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTag:
    """ALTER TABLE table DROP TAG [IF EXISTS] name"""

    table: Name
    tag: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTags:
    """SHOW TAGS [FROM | IN] table"""

    table: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFeature:
    """ALTER TABLE table DROP FEATURE feature [TRUNCATE HISTORY]"""

    table: Name
    feature: str
    truncate_history: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFeature:
    """ALTER TABLE table ADD FEATURE feature"""

    table: Name
    feature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncIdentity:
    """ALTER TABLE table ALTER | CHANGE [COLUMN] column SYNC IDENTITY"""

    table: Name
    column: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorgPurge:
    """REORG TABLE table [WHERE condition] APPLY (PURGE)"""

    table: Name
    where: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorgBloomFilters:
    """REORG TABLE table [WHERE condition] APPLY (BLOOMFILTER)"""

    table: Name
    where: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedColumn:
    """A column, and its options by the names that were written."""

    path: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBloomFilters:
    """CREATE BLOOMFILTER INDEX ON [TABLE] table FOR COLUMNS (column [OPTIONS (...)], ...) [OPTIONS (...)]"""

    table: Name
    columns: tuple[IndexedColumn, ...]
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DropBloomFilters:
    """DROP BLOOMFILTER INDEX ON [TABLE] table [FOR COLUMNS (column, ...)]"""

    table: Name
    columns: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorgUpgradeUniform:
    """REORG TABLE table APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = n))"""

    table: Name
    iceberg_compat_version: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncMetadata:
    """MSCK REPAIR TABLE table SYNC METADATA"""

    table: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransaction:
    """BEGIN | START TRANSACTION [ISOLATION LEVEL SERIALIZABLE | SNAPSHOT]"""

    is_serializable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """COMMIT | ROLLBACK [TRANSACTION | WORK]"""

    commits: bool


Statement: TypeAlias = (
    DescribeHistory
    | DescribeDetail
    | Vacuum
    | Optimize
    | CacheSelect
    | CopyInto
    | ComputeStatistics
    | Fsck
    | Generate
    | ConvertToDelta
    | Restore
    | Clone
    | CreateTag
    | DropTag
    | ShowTags
    | DropFeature
    | AddFeature
    | SyncIdentity
    | ReorgPurge
    | ReorgBloomFilters
    | CreateBloomFilters
    | DropBloomFilters
    | ReorgUpgradeUniform
    | SyncMetadata
    | BeginTransaction
    | EndTransaction
)

ExplainMode: TypeAlias = Literal["simple", "extended", "codegen", "cost", "formatted"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement, and the EXPLAIN mode if it should only be explained."""

    statement: Statement
    explain: ExplainMode | None = None


def values_of(record: object) -> Iterator[Expression]:
    """The expressions in a record that are values, in field order, without conditions and queries, which are evaluated
    over rows.
    """
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, Expression) and field.name not in _OVER_ROWS:
            yield value
        elif isinstance(value, Name | AsOf):
            yield from values_of(value)


def condition_of_statement(record: Statement) -> Expression | None:
    """The WHERE condition of a statement, if any."""
    return getattr(record, "where", None)


_OVER_ROWS = ("where", "inventory_query")
