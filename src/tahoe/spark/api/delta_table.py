"""`DeltaTable`, the Python API of the reference, under the same names.

    from tahoe import DeltaTable
    DeltaTable.forPath(spark, "/data/flights").history().show()

Arguments, argument checks and result columns are the reference's. This module only translates calls into commands.
"""

# ruff: noqa: N802, N803  the names are the reference's

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from tahoe.errors import DeltaError, InvalidOptionError, TableNotFoundError
from tahoe.spark.api.connect.session import is_connect, is_served
from tahoe.spark.api.dml_arguments import assignments_of, condition_column, own_columns
from tahoe.spark.api.lifecycle import DeltaTableLifecycle
from tahoe.spark.api.merge_builder import DeltaMergeBuilder
from tahoe.spark.api.optimize_builder import DeltaOptimizeBuilder, purge_rows
from tahoe.spark.api.table_builder import TableBuilder
from tahoe.spark.api.table_handle import TableHandle
from tahoe.spark.ddl.catalog import location_of, name_parts, path_in
from tahoe.spark.dml.delete_update import Delete, Update, delete, update
from tahoe.spark.dml.identity import sync_identity
from tahoe.spark.dml.merge_command import Merge
from tahoe.spark.dml.resolved_plans import counts_frame
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.statements.time_travel import check_names_no_version
from tahoe.spark.jvm.table_cache import open_table, table_finder
from tahoe.spark.layout.auto_compaction import writing_command
from tahoe.spark.maintenance.convert import run_convert
from tahoe.spark.maintenance.history_detail import DETAIL, HISTORY, detail_row, history_row, result_frame
from tahoe.spark.maintenance.user_command import raising_for_user, run_for_user
from tahoe.spark.maintenance.vacuum import report_frame, run_vacuum
from tahoe.table.arguments import FLAG, LOCATION, SHARE, TEXT, TEXTS, Rule
from tahoe.table.arrow.given_rows import Unfit
from tahoe.table.calls import OtherNames, Signature, of_objects
from tahoe.table.other_names import DELTA_TABLE
from tahoe.table.table import Table

M = TypeVar("M", bound=Callable[..., Any])


def _session_only(value: Any) -> Any:
    if type(value).__name__ != SparkSession.__name__ and not isinstance(
        value, SparkSession
    ):  # Spark Connect's session is another class
        raise Unfit
    return value


def _opened(value: Any) -> Any:
    if not isinstance(value, Table):
        raise Unfit
    return value


SESSION = Rule(
    expected="a Spark session", clean=_session_only, remedy="Pass the session that was passed to tahoe.enable."
)
OPENED = Rule(  # whoever knows deltalake writes DeltaTable(path)
    expected="a tahoe.Table",
    clean=_opened,
    remedy="Write DeltaTable.forPath(spark, path), or tahoe.Table(path) without Spark.",
)

# The columns of what `reorg` returns.
_PURGED = ("numFilesRemoved", "numFilesAdded", "numBytesRemoved", "numBytesAdded")


def _or_remote(method: M) -> M:
    """Wrap a class method: if the session is a client of Spark Connect whose server has tahoe, the method of
    `RemoteDeltaTable` of the same name runs instead.
    """

    signature = Signature(method)

    @functools.wraps(method)
    def called(cls: Any, sparkSession: Any = None, *arguments: Any, **named: Any) -> Any:
        if isinstance(sparkSession, str):  # a path in place of the session: raises
            _check_session(sparkSession)
        raising_for_user(lambda: signature.check(cls, (sparkSession, *arguments), named))
        session = SparkSession.getActiveSession() if sparkSession is None else sparkSession
        if is_served(session):
            from tahoe.spark.api.connect.conflicts import know_conflicts  # noqa: PLC0415 - needs grpc
            from tahoe.spark.api.connect.table import RemoteDeltaTable  # noqa: PLC0415 - needs protobuf

            know_conflicts()
            return getattr(RemoteDeltaTable, method.__name__)(session, *arguments, **named)
        return method(cls, sparkSession, *arguments, **named)

    return called  # type: ignore[return-value]


@of_objects(
    'DeltaTable.forPath(spark, "/data/t")',
    names=DELTA_TABLE,
    beside={"table.toDF()": DataFrame, "tahoe.Table(path)": Table},
)
class DeltaTable(DeltaTableLifecycle, metaclass=OtherNames):
    """A Delta table in a Spark session. Every call sees the newest version.

    Created by `forPath`, `forName`, and the builder's `execute`.
    """

    def __init__(
        self, spark: SparkSession, table: Table | None = None, *, name: str | None = None, alias: str | None = None
    ) -> None:
        self._handle = TableHandle(
            spark=spark, table=_checked_argument(OPENED, table, "table", "DeltaTable"), name=name, alias=alias
        )

    def __repr__(self) -> str:
        alias = self._handle.alias
        shown = "" if alias is None else f", alias={alias!r}"
        return f"DeltaTable({self._handle.name or self._handle.table.url!r}{shown})"

    def _repr_html_(self) -> str | None:
        """In a notebook: name, location, version, rows, files, size, columns and the last commits, from the log
        alone.
        """
        return self._handle.table._repr_html_(self._handle.name)

    @classmethod
    @_or_remote
    def forPath(
        cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] = MappingProxyType({})
    ) -> DeltaTable:
        """Return the table in a folder.

        >>> DeltaTable.forPath(spark, "/data/orders").toDF().count()
        3

        Args:
            hadoopConf: credentials and settings of the storage, with names that begin with `fs.` or `dfs.`.

        Raises:
            TableNotFoundError, NotADeltaTableError: the folder has no Delta table.
            InvalidOptionError: `hadoopConf` has another setting.
        """
        _check_session(sparkSession)
        place = _checked_argument(LOCATION, path, "path")
        return cls(
            sparkSession,
            _check_exists(sparkSession, open_table(sparkSession, place, _storage_settings(hadoopConf, place))),
        )

    @classmethod
    @_or_remote
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Return the table that has a name in the session's catalog, or a path as in ``delta.`/data/t` ``.

        >>> DeltaTable.forName(spark, "delta.`/data/orders`").toDF().count()
        3

        Raises:
            AnalysisException: the catalog does not have the name.
            NotADeltaTableError: the name is of a view, or of a table that is not a Delta table.
        """
        _check_session(sparkSession)
        name = _checked_argument(TEXT, tableOrViewName, "tableOrViewName")
        location = raising_for_user(lambda: location_of(sparkSession, name))
        return cls(sparkSession, _check_exists(sparkSession, open_table(sparkSession, location)), name=name)

    @classmethod
    @_or_remote
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None
    ) -> DeltaTable:
        """Make a folder of Parquet files, such as ``parquet.`/data/t` ``, or a table of the catalog a Delta table, in
        place.

        >>> DeltaTable.convertToDelta(spark, "parquet.`/data/parquet`").toDF().count()
        3

        Args:
            partitionSchema: the partition columns in the order of the folders, as DDL ("day DATE, hour INT") or as a
                schema. The catalog knows those of its tables.

        Raises:
            DeltaAnalysisError, DeltaError: see `tahoe.Table.convert`. Nothing was changed.
        """
        _check_session(sparkSession)
        name = _checked_argument(TEXT, identifier, "identifier")
        parts = raising_for_user(lambda: name_parts(Gateway(sparkSession), name))
        location = run_convert(sparkSession, parts, partitionSchema)
        return cls(
            sparkSession,
            _check_exists(sparkSession, open_table(sparkSession, location)),
            name=None if "/" in parts[-1] else name,
        )

    @classmethod
    @_or_remote
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Return whether there is a Delta table at a path.

        >>> DeltaTable.isDeltaTable(spark, "/data/orders")
        True
        """
        _check_session(sparkSession)
        place = _checked_argument(LOCATION, identifier, "identifier")
        return open_table(sparkSession, path_in(place) or place).exists()

    @classmethod
    @_or_remote
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table; the table must not exist.

        >>> DeltaTable.create(spark).location("/data/new").addColumn("id", "LONG").execute().toDF().columns
        ['id']
        """
        return DeltaTableBuilder(_session(sparkSession), "create")

    @classmethod
    @_or_remote
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table, and leaves an existing table unchanged.

        >>> builder = DeltaTable.createIfNotExists(spark).location("/data/orders")
        >>> builder.addColumn("id", "LONG").execute().toDF().count()
        3
        """
        return DeltaTableBuilder(_session(sparkSession), "createIfNotExists")

    @classmethod
    @_or_remote
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that replaces a table and keeps its history; the table must exist.

        >>> DeltaTable.replace(spark).location("/data/orders").addColumn("id", "LONG").execute().toDF().count()
        0
        """
        return DeltaTableBuilder(_session(sparkSession), "replace")

    @classmethod
    @_or_remote
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table, or replaces an existing table and keeps its history.

        >>> DeltaTable.createOrReplace(spark).location("/data/orders").addColumn("id", "LONG").execute().toDF().count()
        0
        """
        return DeltaTableBuilder(_session(sparkSession), "createOrReplace")

    def toDF(self) -> DataFrame:
        """Return the rows as a DataFrame, which reads the newest version each time it is planned.

        Conditions and values may use its columns: `table.delete(table.toDF().id == 3)`.

        >>> table.toDF().where("price > 25").count()
        1
        """
        handle = self._handle
        frame = (
            handle.spark.read.format("delta").load(handle.table.url)
            if handle.name is None
            else handle.spark.table(handle.name)
        )
        handle.frames.append(frame)
        return frame if handle.alias is None else frame.alias(handle.alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """Return the same table under an alias for use in conditions.

        >>> table.alias("o").toDF().select("o.id").count()
        3
        """
        alias = _checked_argument(TEXT, aliasName, "aliasName", self._handle.table.url)
        same = DeltaTable(self._handle.spark, self._handle.table)
        same._handle = dataclasses.replace(self._handle, alias=alias)
        return same

    def delete(self, condition: str | Column | None = None) -> DataFrame:
        """Delete the rows for which a condition is true, or all rows. The condition may contain subqueries.

        >>> table.delete("price > 25").first().num_affected_rows
        1

        Returns:
            one row: `num_affected_rows`, the number of deleted rows; -1 if whole files without a row count in the log
            were removed.

        Raises:
            AnalysisException: before any work, if the condition is invalid or the table does not allow the deletion.
            DeltaConcurrentModificationException: a concurrent commit conflicts.
        """
        command = Delete(target=self._handle.target(), condition=self._handle.condition(condition))
        return self._handle.affected(lambda: delete(command))

    def update(self, condition: str | Column | None = None, set: Mapping[str, str | Column] | None = None) -> DataFrame:
        """Update the rows for which a condition is true, or all rows.

        >>> table.update("id = 1", {"price": "price * 2"}).first().num_affected_rows
        1

        Args:
            set: values by the names of columns or struct fields; strings are SQL. Values are computed from the old
                values of the row.

        Returns:
            one row: `num_affected_rows`, the number of updated rows.

        Raises:
            AnalysisException: before any work, if the condition or a value is invalid or the table does not allow the
                update.
            DeltaConcurrentModificationException: a concurrent commit conflicts.
        """
        target = self._handle.target()
        assignments = assignments_of(target, set, "'set'")
        command = Update(target=target, assignments=assignments, condition=self._handle.condition(condition))
        return self._handle.affected(lambda: update(command))

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Return a builder of a MERGE, which updates, deletes and inserts rows according to the rows of a source.

        >>> merge = table.alias("t").merge(rows.alias("s"), "t.id = s.id")
        >>> merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().first().num_inserted_rows
        1

        Args:
            condition: which rows of the source match which rows of the table. Columns are qualified with the aliases of
                the two.
        """
        if source is None:
            raise ValueError("'source' in merge cannot be None")
        if not isinstance(source, DataFrame):
            raise TypeError("Type of 'source' in merge must be DataFrame.")
        if condition is None:
            raise ValueError("'condition' in merge cannot be None")
        target = self._handle.target()
        return DeltaMergeBuilder(
            Merge(target=target, source=source, condition=own_columns(target, condition_column(condition), source))
        )

    def reorg(self, where: str | Column | None = None, *, purge: bool = True, deletedShare: float = 0.0) -> DataFrame:
        """Rewrite files without the rows that deletion vectors mark. The table's rows do not change.

        >>> table.reorg().first().numFilesRemoved
        0

        Args:
            where: a condition on partition columns; only files of matching partitions are rewritten.
            purge: must be true; no other kind of reorganisation exists.
            deletedShare: only files in which deletion vectors mark more than this share of the rows are rewritten, from
                0 to 1.

        Returns:
            one row: `numFilesRemoved`, `numFilesAdded`, `numBytesRemoved`, `numBytesAdded`.

        Raises:
            InvalidOptionError: an argument is invalid.
            DeltaConcurrentModificationException: a concurrent commit has changed one of the files.
        """
        if purge is not True:
            detail = "REORG supports only purge=True"
            raise for_user(InvalidOptionError(option="purge", value=purge, table=self._handle.table.url, detail=detail))
        share = _checked_argument(SHARE, deletedShare, "deletedShare", self._handle.table.url)
        done = purge_rows(self._handle.target(), self._handle.condition(where), share)
        counts = (len(done.removed_bytes), len(done.added_bytes), sum(done.removed_bytes), sum(done.added_bytes))
        return counts_frame(self._handle.spark, _PURGED, counts)

    def syncIdentity(self, columnName: str) -> None:
        """Advance the high-water mark of an identity column to the farthest value in the table, as `ALTER COLUMN ...
        SYNC IDENTITY` does.

        >>> DeltaTable.forPath(spark, "/data/numbered").syncIdentity("id")

        Raises:
            NotAnIdentityColumnError: the column is not an identity column.
        """
        run_for_user(
            self._handle.spark,
            lambda: sync_identity(self._handle.target(), TEXT(columnName, "columnName", table=self._handle.table.url)),
        )

    def vacuum(
        self, retentionHours: float | None = None, *, lite: bool | None = None, dry_run: bool = False
    ) -> DataFrame:
        """Delete the files that no version within the retention needs, and the folders that this leaves empty.

        >>> table.vacuum(dry_run=True).count()
        0

        Args:
            retentionHours: None for the table property `delta.deletedFileRetentionDuration`; so is a shorter time other
                than 0, unless `spark.databricks.delta.vacuum.retentionWindowIgnore.enabled` is false.
            lite: find the files in the log instead of listing the folder; None for
                `spark.databricks.delta.vacuum.lite.enabled`.
            dry_run: delete nothing.

        Returns:
            the column `path`: what was deleted, or with `dry_run` would be. The reference returns an empty DataFrame.
            What tags hold back is told by a warning of the logger `tahoe`.

        Raises:
            VacuumRetentionTooShortError: the time is shorter than the table's, and
                `spark.databricks.delta.retentionDurationCheck.enabled` is not false.
            CannotVacuumLiteError: the log has lost commits that removed files.
        """
        hours = None if retentionHours is None else float(retentionHours)
        spark, table = self._handle.spark, self._handle.table
        is_lite = None if lite is None else _checked_argument(FLAG, lite, "lite", table.url)
        is_dry = _checked_argument(FLAG, dry_run, "dry_run", table.url)
        return report_frame(spark, run_vacuum(spark, table, retention_hours=hours, lite=is_lite, dry_run=is_dry))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Return a builder of an OPTIMIZE: which partitions it rewrites, and how.

        >>> table.optimize().executeCompaction().count()
        1
        """
        return DeltaOptimizeBuilder(self._handle.target())

    def history(self, limit: int | None = None) -> DataFrame:
        """Return one row per commit, newest first: all commits, or the newest `limit`.

        >>> [commit.operation for commit in table.history().collect()]
        ['WRITE', 'CREATE TABLE']
        """
        commits = raising_for_user(lambda: self._handle.table.history(limit))
        return result_frame(self._handle.spark, [history_row(commit) for commit in commits], HISTORY)

    def detail(self) -> DataFrame:
        """Return one row that describes the newest version of the table.

        >>> table.detail().first().numFiles
        1
        """
        return result_frame(
            self._handle.spark, [detail_row(self._handle.table.snapshot(), self._handle.full_name())], DETAIL
        )


def _session(given: SparkSession | None) -> SparkSession:
    session = given if given is not None else SparkSession.getActiveSession()
    _check_session(session)
    assert session is not None
    return session


def _check_session(given: object) -> None:
    """Check that there is a session, as the reference asserts, and that it is an enabled `SparkSession`; others would
    fail inside Spark.
    """
    assert given is not None, "there is no active Spark session"
    session = _checked_argument(SESSION, given, "sparkSession")
    if not is_connect(session):
        raising_for_user(Gateway(session).check_enabled)


def _checked_argument(rule: Rule, value: object, argument: str, table: str = "the table") -> Any:
    """Check an argument that the reference passes to the JVM without a check."""
    return raising_for_user(lambda: rule(value, argument, table=table))


def _storage_settings(given: object, place: str) -> Any:
    """The argument `hadoopConf`, which may only have settings of file systems."""
    settings = _checked_argument(TEXTS, given, "hadoopConf", place)
    for name, value in settings.items():
        if not name.startswith(("fs.", "dfs.")):
            raise for_user(
                InvalidOptionError(
                    option=name,
                    value=value,
                    table=place,
                    detail="only options that start with fs. or dfs. are accepted",
                )
            )
    return settings


def _check_exists(spark: SparkSession, table: Table) -> Table:
    """Return the table, if it exists. A table that is missing may be a path with a version in its name, which has an
    error of its own.
    """

    def check() -> None:
        try:
            table.snapshot()
        except TableNotFoundError:
            check_names_no_version(table_finder(spark), table.url)
            raise

    raising_for_user(check)
    return table


class DeltaTableBuilder(TableBuilder):
    """A builder of a new table: its name or location, columns, partitioning, comment and properties. `execute` creates
    the table.
    """

    def execute(self) -> DeltaTable:
        """Create the table.

        Raises:
            TableExistsError: `create`, and the table exists.
            TableNotFoundError: `replace`, and the table does not exist.
            DeltaAnalysisError: the columns or properties are invalid.
        """
        try:
            with writing_command(Gateway(self._spark)):
                table, name = self._make()
        except DeltaError as error:
            raise for_user(error) from None
        return DeltaTable(self._spark, table, name=name)
