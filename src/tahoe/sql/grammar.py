"""Parses Delta's own SQL statements into the records of `statements`.

    parse("describe history flights limit 3")
        ->   Parsed(DescribeHistory(table=Name(parts=("flights",)), limit=Expression("3", ...)))

Other statements return None. Text that starts like a Delta statement but does not parse raises `StatementSyntaxError`.
The grammar is the reference's (`DeltaSqlBase.g4`), plus ADD FEATURE, ANALYZE ... COMPUTE DELTA STATISTICS, CACHE
SELECT, COPY INTO, FSCK REPAIR TABLE, transactions, and the statements about tags and Bloom filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tahoe.errors import MutuallyExclusiveClausesError, StatementSyntaxError
from tahoe.sql.copy_into import CopyIntoParser
from tahoe.sql.statements import (
    AddFeature,
    AsOf,
    BeginTransaction,
    CacheSelect,
    Clone,
    ComputeStatistics,
    ConvertToDelta,
    CreateBloomFilters,
    CreateTag,
    DescribeDetail,
    DescribeHistory,
    DropBloomFilters,
    DropFeature,
    DropTag,
    EndTransaction,
    ExplainMode,
    Expression,
    Fsck,
    Generate,
    IndexedColumn,
    Name,
    Optimize,
    Parsed,
    PartitionColumn,
    ReorgBloomFilters,
    ReorgPurge,
    ReorgUpgradeUniform,
    Restore,
    ShowTags,
    Statement,
    SyncIdentity,
    SyncMetadata,
    Vacuum,
)
from tahoe.sql.tokens import Token, tokens_of


def parse(text: str) -> Parsed | None:
    """Parse a Delta statement.

    Returns:
        None for any other SQL.

    Raises:
        StatementSyntaxError: the text starts like a Delta statement but does not parse.
    """
    parser = _Parser(text)
    explain = parser.explain_mode()
    head = next((head for head in _HEADS if head.matches(parser)), None)
    if head is None:
        return None
    statement = head.read(parser)
    parser.at_end()
    return Parsed(statement, explain)


def parse_name(text: str) -> Name:
    """Parse a table name as in a statement.

    Raises:
        StatementSyntaxError: it is not a table name.
    """
    parser = _Parser(text)
    name = parser.name()
    parser.at_end()
    return name


def statement_in_script(text: str) -> Expression | None:
    """A Delta statement inside an SQL script (BEGIN ... END), which only Spark's parser can parse; None if there is
    none.
    """
    tokens = tokens_of(text)
    if not tokens[0].is_word("BEGIN"):
        return None
    for before, token in pairwise(tokens):
        starts = before.is_symbol(";") or before.is_word("BEGIN", "DO", "THEN", "ELSE", "LOOP", "REPEAT")
        if starts and token.is_word(*_FIRST_WORDS):
            end = next(
                (t.start for t in tokens if t.start > token.start and (t.is_symbol(";") or t.kind == "end")), len(text)
            )
            try:
                found = parse(text[token.start : end])
            except StatementSyntaxError:
                continue
            if found is not None:
                return Expression(text[token.start : end].strip(), token.start)
    return None


def changes_clause(text: str) -> Token | None:
    """The first word of a CHANGES clause in a query; None if it has none."""
    tokens = tokens_of(text)
    for token, second, third in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.is_word("CHANGES") and second.is_word("FROM") and third.is_word(*_BOUNDS):
            return token
    return None


_BOUNDS = ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")

_FIRST_WORDS = (
    *("DESCRIBE", "DESC", "VACUUM", "OPTIMIZE", "ANALYZE", "FSCK", "MSCK", "GENERATE", "CONVERT"),
    *("RESTORE", "REORG", "ALTER", "CREATE", "DROP", "REPLACE", "SHOW", "CACHE", "COPY"),
    *("BEGIN", "START", "COMMIT", "ROLLBACK"),
)

_EXPLAIN_MODES: Mapping[str, ExplainMode] = {
    "EXTENDED": "extended",
    "CODEGEN": "codegen",
    "COST": "cost",
    "FORMATTED": "formatted",
}


class _Parser(CopyIntoParser):
    """A recursive-descent parser of statements."""

    def explain_mode(self) -> ExplainMode | None:
        if not self.takes("EXPLAIN"):
            return None
        for word, mode in _EXPLAIN_MODES.items():
            if self.takes(word):
                return mode
        return "simple"

    def describe_history(self) -> DescribeHistory:
        self.place += 2
        table = self.name()
        limit = self.expression("a number") if self.takes("LIMIT") else None
        return DescribeHistory(table=table, limit=limit)

    def describe_detail(self) -> DescribeDetail:
        self.place += 2
        return DescribeDetail(table=self.name())

    def vacuum(self) -> Vacuum:
        self.place += 1
        table = self.name()
        mode: Literal["LITE", "FULL"] | None = None
        inventory: Name | None = None
        query = hours = None
        dry_run = False
        while self.token.kind != "end" and not self.token.is_symbol(";"):
            if mode is None and self.sees("LITE|FULL"):
                mode = "LITE" if self.next().is_word("LITE") else "FULL"
            elif inventory is None and query is None and self.takes("USING"):
                self.require("INVENTORY")
                if self.takes_symbol("("):
                    query = self.expression("a query", lambda: self.token.is_symbol(")"))
                    self.require_symbol(")")
                else:
                    inventory = self.name()
            elif hours is None and self.takes("RETAIN"):
                hours = self.expression("a number of hours", lambda: self.sees("HOURS"))
                self.require("HOURS")
            elif not dry_run and self.takes("DRY"):
                self.require("RUN")
                dry_run = True
            else:
                self.fail("LITE, FULL, USING INVENTORY, RETAIN ... HOURS or DRY RUN, each once")
        return Vacuum(
            table=table, mode=mode, inventory=inventory, inventory_query=query, retain_hours=hours, dry_run=dry_run
        )

    def optimize(self) -> Optimize:
        self.place += 1
        table = self.name()
        full = self.takes("FULL")
        where = self.expression("a condition", lambda: self.sees("ZORDER", "BY")) if self.takes("WHERE") else None
        columns: list[tuple[str, ...]] = []
        if self.takes("ZORDER"):
            self.require("BY")
            if self.token.is_symbol("("):
                self.listed(lambda: columns.append(self.path("a column")))
            else:
                columns.append(self.path("a column"))
                while self.takes_symbol(","):
                    columns.append(self.path("a column"))
        return Optimize(table=table, full=full, where=where, zorder_by=tuple(columns))

    def cache_select(self) -> CacheSelect:
        self.place += 2
        columns: list[tuple[str, ...]] = []
        if not self.takes_symbol("*"):
            columns.append(self.path("a column or *"))
            while self.takes_symbol(","):
                columns.append(self.path("a column"))
        self.require("FROM")
        table = self.name()
        where = self.expression("a condition") if self.takes("WHERE") else None
        return CacheSelect(table=table, columns=tuple(columns), where=where)

    def begin_transaction(self) -> BeginTransaction:
        self.place += 2
        if not self.takes("ISOLATION"):
            return BeginTransaction()
        self.require("LEVEL")
        if not self.sees("SERIALIZABLE|SNAPSHOT"):
            self.fail("SERIALIZABLE or SNAPSHOT")
        return BeginTransaction(is_serializable=self.next().is_word("SERIALIZABLE"))

    def end_transaction(self) -> EndTransaction:
        commits = self.next().is_word("COMMIT")
        self.takes("TRANSACTION|WORK")
        return EndTransaction(commits=commits)

    def analyze(self) -> ComputeStatistics:
        table = self.analyzed()
        self.require("COMPUTE", "DELTA", "STATISTICS")
        return ComputeStatistics(table=table)

    def analyzed(self) -> Name:
        self.require("ANALYZE", "TABLE")
        return self.name()

    def fsck(self) -> Fsck:
        self.place += 1
        self.require("REPAIR", "TABLE")
        table = self.name()
        metadata_only = self.takes("METADATA", "ONLY")
        verify_all_files = not metadata_only and self.takes("VERIFY", "ALL", "FILES")
        dry_run = self.takes("DRY", "RUN")
        if self.token.kind != "end" and not self.token.is_symbol(";"):
            self.fail("METADATA ONLY or VERIFY ALL FILES, then DRY RUN")
        return Fsck(table=table, metadata_only=metadata_only, verify_all_files=verify_all_files, dry_run=dry_run)

    def sync_metadata(self) -> SyncMetadata:
        table = self.repaired()
        self.require("SYNC", "METADATA")
        return SyncMetadata(table=table)

    def repaired(self) -> Name:
        self.require("MSCK", "REPAIR", "TABLE")
        return self.name()

    def generate(self) -> Generate:
        self.place += 1
        mode = self.identifier("symlink_format_manifest")
        self.require("FOR", "TABLE")
        return Generate(table=self.name(), mode=mode)

    def convert(self) -> ConvertToDelta:
        self.place += 3
        table = self.name()
        statistics = not self.takes("NO", "STATISTICS")
        columns: list[PartitionColumn] = []
        if self.takes("PARTITIONED"):
            self.require("BY")
            self.listed(lambda: columns.append(self.partition_column()))
        return ConvertToDelta(table=table, statistics=statistics, partition_by=tuple(columns))

    def partition_column(self) -> PartitionColumn:
        name = self.identifier("a column")
        self.takes_symbol(":")
        kind = self.expression("the column's type", lambda: self.token.is_symbol(",") or self.token.is_symbol(")"))
        return PartitionColumn(name=name, type=kind.text)

    def restore(self) -> Restore:
        self.place += 1
        self.takes("TABLE")
        table = self.name()
        self.takes("TO")
        found = self.as_of()
        if found is None:
            self.fail("VERSION AS OF or TIMESTAMP AS OF")
        return Restore(table=table, as_of=found)

    def as_of(self) -> AsOf | None:
        """`[FOR] VERSION|TIMESTAMP AS OF ...`; None if it does not follow."""
        is_announced = self.takes("FOR")
        if self.sees("VERSION|SYSTEM_VERSION", "AS", "OF"):
            self.place += 3
            return AsOf(version=self.expression("a version", self.ends_as_of))
        if self.sees("TIMESTAMP|SYSTEM_TIME", "AS", "OF"):
            self.place += 3
            return AsOf(timestamp=self.expression("a timestamp", self.ends_as_of))
        if is_announced:
            self.fail("VERSION AS OF or TIMESTAMP AS OF")
        return None

    def ends_as_of(self) -> bool:
        return self.sees("TBLPROPERTIES|LOCATION|EXPIRES")

    def clone_header(self) -> tuple[bool, bool, bool, Name] | None:
        """CREATE or REPLACE TABLE up to the target: whether it creates, replaces, has IF NOT EXISTS, and the target.
        None otherwise.
        """
        creates = self.takes("CREATE")
        replaces = self.takes("OR", "REPLACE") if creates else self.takes("REPLACE")
        if not (creates or replaces) or not self.takes("TABLE"):
            return None
        if_not_exists = self.takes("IF", "NOT", "EXISTS")
        return creates, replaces, if_not_exists, self.name()

    def clone(self) -> Clone:
        header = self.clone_header()
        assert header is not None  # `_clones` has matched it
        creates, replaces, if_not_exists, target = header
        if replaces and if_not_exists:
            expected = "either REPLACE or IF NOT EXISTS: one replaces a table that exists, the other leaves it"
            raise MutuallyExclusiveClausesError.at(self.text, self.token.start, self.token.value, expected)
        is_shallow = self.next().is_word("SHALLOW")
        self.require("CLONE")
        source = self.name()
        found = self.as_of()
        properties: list[tuple[str, str]] = []
        location = None
        while True:
            if not properties and self.takes("TBLPROPERTIES"):
                self.listed(lambda: properties.append(self.property()))
            elif location is None and self.takes("LOCATION"):
                location = self.text_value("a quoted path")
            else:
                break
        return Clone(
            target=target,
            source=source,
            is_shallow=is_shallow,
            creates=creates,
            replaces=replaces,
            if_not_exists=if_not_exists,
            as_of=found or AsOf(),
            properties=tuple(properties),
            location=location,
        )

    def feature(self) -> str:
        if self.token.kind == "text":
            return self.next().value
        parts = [self.identifier("a feature name")]
        while self.token.is_symbol("-") and self.token.start == self.tokens[self.place - 1].end:
            self.place += 1
            parts.append(self.identifier("the rest of the feature's name"))
        return "-".join(parts)

    def drop_feature(self) -> DropFeature:
        table = self.altered()
        self.place += 2
        feature = self.feature()
        truncate = self.takes("TRUNCATE")
        if truncate:
            self.require("HISTORY")
        return DropFeature(table=table, feature=feature, truncate_history=truncate)

    def add_feature(self) -> AddFeature:
        table = self.altered()
        self.place += 2
        return AddFeature(table=table, feature=self.feature())

    def create_tag(self) -> CreateTag:
        table = self.altered()
        self.place += 1
        replaces = self.takes("OR", "REPLACE")
        self.require("TAG")
        tag = self.tag()
        as_of = self.as_of() or AsOf()
        expires = self.expression("a timestamp") if self.takes("EXPIRES") else None
        return CreateTag(table=table, tag=tag, replaces=replaces, as_of=as_of, expires=expires)

    def drop_tag(self) -> DropTag:
        table = self.altered()
        self.place += 2
        if_exists = self.takes("IF", "EXISTS")
        return DropTag(table=table, tag=self.tag(), if_exists=if_exists)

    def show_tags(self) -> ShowTags:
        self.place += 2
        self.takes("FROM|IN")
        return ShowTags(table=self.name())

    def tag(self) -> str:
        if self.sees("NULL"):
            self.fail("the name of a tag, in quotes")
        return self.next().value if self.token.kind == "text" else self.identifier("the name of a tag, in quotes")

    def sync_identity(self) -> SyncIdentity:
        table = self.altered()
        self.place += 1
        self.takes("COLUMN")
        column = self.path("a column")
        self.require("SYNC", "IDENTITY")
        return SyncIdentity(table=table, column=column)

    def altered(self) -> Name:
        self.require("ALTER", "TABLE")
        return self.name()

    def reorg(self) -> ReorgPurge | ReorgBloomFilters | ReorgUpgradeUniform:
        self.place += 1
        self.require("TABLE")
        table = self.name()
        where = None
        if self.takes("WHERE"):
            where = self.expression("a condition", lambda: self.sees("APPLY") and self.ahead(1).is_symbol("("))
        self.require("APPLY")
        self.require_symbol("(")
        if where is None and self.takes("UPGRADE"):
            self.require("UNIFORM")
            self.require_symbol("(")
            self.require("ICEBERG_COMPAT_VERSION")
            self.require_symbol("=")
            version = self.expression("a version", lambda: self.token.is_symbol(")"))
            self.require_symbol(")")
            self.require_symbol(")")
            return ReorgUpgradeUniform(table=table, iceberg_compat_version=version)
        adds_filters = self.takes("BLOOMFILTER")
        if not adds_filters and not self.takes("PURGE"):
            self.fail("PURGE or BLOOMFILTER" if where is not None else "PURGE, BLOOMFILTER or UPGRADE UNIFORM")
        self.require_symbol(")")
        return ReorgBloomFilters(table=table, where=where) if adds_filters else ReorgPurge(table=table, where=where)

    def indexed(self) -> Name:
        """`BLOOMFILTER INDEX ON [TABLE]` and the table, behind CREATE or DROP."""
        self.place += 2
        self.require("INDEX", "ON")
        if self.sees("TABLE") and not self.ahead(1).is_symbol(".") and not self.sees("FOR", "COLUMNS", after=1):
            self.place += 1  # else it is the name of the table
        return self.name()

    def create_bloom_filters(self) -> CreateBloomFilters:
        table = self.indexed()
        columns: list[IndexedColumn] = []
        self.require("FOR", "COLUMNS")
        self.listed(lambda: columns.append(IndexedColumn(path=self.path("a column"), options=self.options())))
        return CreateBloomFilters(table=table, columns=tuple(columns), options=self.options())

    def options(self) -> tuple[tuple[str, str], ...]:
        """`[OPTIONS (key [=] value, ...)]`"""
        found: list[tuple[str, str]] = []
        if self.takes("OPTIONS"):
            self.listed(lambda: found.append(self.property()))
        return tuple(found)

    def drop_bloom_filters(self) -> DropBloomFilters:
        table = self.indexed()
        if not self.takes("FOR"):
            return DropBloomFilters(table=table)
        columns: list[tuple[str, ...]] = []
        self.require("COLUMNS")
        self.listed(lambda: columns.append(self.path("a column")))
        return DropBloomFilters(table=table, columns=tuple(columns))


# --- recognising statements


@dataclass(frozen=True, slots=True)
class _Head:
    """A kind of statement: how its first words are recognised, and the method that parses it."""

    matches: Callable[[_Parser], bool]
    read: Callable[[_Parser], Statement]


def _begins(*words: str) -> Callable[[_Parser], bool]:
    return lambda parser: parser.sees(*words)


def _describes(what: str) -> Callable[[_Parser], bool]:
    """DESCRIBE HISTORY or DETAIL with an argument; without one, Spark describes a table of that name."""

    def matches(parser: _Parser) -> bool:
        return parser.sees("DESCRIBE|DESC", what) and parser.ahead(2).kind in ("word", "quoted", "text")

    return matches


def _alters(follows: Callable[[_Parser], bool]) -> Callable[[_Parser], bool]:
    """ALTER TABLE name, then the given words. Spark parses all other ALTER TABLE statements."""
    return _after(_Parser.altered, follows)


def _after(table: Callable[[_Parser], Name], follows: Callable[[_Parser], bool]) -> Callable[[_Parser], bool]:
    """The first words with the table's name, then the given words."""

    def matches(parser: _Parser) -> bool:
        place = parser.place
        try:
            table(parser)
            return follows(parser)
        except StatementSyntaxError:
            return False
        finally:
            parser.place = place

    return matches


def _syncs(parser: _Parser) -> bool:
    if not parser.takes("ALTER|CHANGE"):
        return False
    parser.takes("COLUMN")
    parser.path("a column")
    return parser.sees("SYNC")


def _creates_tag(parser: _Parser) -> bool:
    return parser.sees("CREATE", "TAG") or parser.sees("CREATE", "OR", "REPLACE", "TAG")


def _clones(parser: _Parser) -> bool:
    place = parser.place
    try:
        return parser.clone_header() is not None and parser.sees("SHALLOW|DEEP", "CLONE")
    except StatementSyntaxError:
        return False
    finally:
        parser.place = place


_HEADS = (
    _Head(_describes("HISTORY"), _Parser.describe_history),
    _Head(_describes("DETAIL"), _Parser.describe_detail),
    _Head(_begins("VACUUM"), _Parser.vacuum),
    _Head(_begins("OPTIMIZE"), _Parser.optimize),
    _Head(_begins("CACHE", "SELECT"), _Parser.cache_select),
    _Head(_begins("COPY", "INTO"), _Parser.copy_into),
    _Head(_after(_Parser.analyzed, _begins("COMPUTE", "DELTA")), _Parser.analyze),
    _Head(_begins("FSCK"), _Parser.fsck),
    _Head(_after(_Parser.repaired, _begins("SYNC", "METADATA")), _Parser.sync_metadata),
    _Head(_begins("GENERATE"), _Parser.generate),
    _Head(_begins("CONVERT", "TO", "DELTA"), _Parser.convert),
    _Head(_begins("RESTORE"), _Parser.restore),
    _Head(_begins("REORG"), _Parser.reorg),
    _Head(_begins("CREATE", "BLOOMFILTER"), _Parser.create_bloom_filters),
    _Head(_begins("DROP", "BLOOMFILTER"), _Parser.drop_bloom_filters),
    _Head(_alters(_begins("DROP", "FEATURE")), _Parser.drop_feature),
    _Head(_alters(_begins("ADD", "FEATURE")), _Parser.add_feature),
    _Head(_alters(_syncs), _Parser.sync_identity),
    _Head(_alters(_creates_tag), _Parser.create_tag),
    _Head(_alters(_begins("DROP", "TAG")), _Parser.drop_tag),
    _Head(_begins("SHOW", "TAGS"), _Parser.show_tags),
    _Head(_clones, _Parser.clone),
    _Head(_begins("BEGIN|START", "TRANSACTION"), _Parser.begin_transaction),
    _Head(_begins("COMMIT|ROLLBACK"), _Parser.end_transaction),
)
