"""`DeltaTable`, the Python API of the reference, under the same names.

    from tahoe import DeltaTable
    DeltaTable.forPath(spark, "/data/flights").history().show()

Arguments, argument checks and result columns are the reference's. This module only translates calls into commands.
"""

# ruff: noqa: N802, N803, TRY004  the names are the reference's, and so are the errors for bad arguments

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from tahoe._version import VERSION
from tahoe.errors import DeltaError, InvalidOptionError, OperationNotYetSupportedError
from tahoe.spark.api.history_detail import DETAIL, HISTORY, described, detail_row, history_row
from tahoe.spark.api.merge_builder import DeltaMergeBuilder, assignments_of, condition_of, own_columns, raising_for_user, run_for_user
from tahoe.spark.api.table_builder import TableBuilder, column_names
from tahoe.spark.api.vacuum import paths_frame, run_vacuum
from tahoe.spark.ddl.catalog import location_of, path_in, qualified_name
from tahoe.spark.ddl.creation import named_or_path
from tahoe.spark.dml.delete_update import Delete, Update, delete, update
from tahoe.spark.dml.feature_drop import drop_feature
from tahoe.spark.dml.identity import sync_identity
from tahoe.spark.dml.merge_command import Merge
from tahoe.spark.dml.reorg import Purge, Purged
from tahoe.spark.dml.reorg import purge as purge_files
from tahoe.spark.dml.reorg_metrics import LAYOUT, purged_row
from tahoe.spark.dml.resolved_plans import COUNT, answered
from tahoe.spark.dml.row_changes import Target
from tahoe.spark.jvm.cancellation import cancellable
from tahoe.spark.jvm.failures import for_user
from tahoe.spark.jvm.gateway import Gateway, engine_of
from tahoe.spark.jvm.table_cache import open_table
from tahoe.table.arguments import LOCATION, SHARE, TEXT, TEXTS, Rule, Unfit
from tahoe.table.table import Table
from tahoe.table.writing.transaction_builder import TransactionBuilder


def _session_only(value: Any) -> Any:
    if type(value).__name__ != SparkSession.__name__ and not isinstance(value, SparkSession):  # Spark Connect's session is another class
        raise Unfit
    return value


SESSION = Rule(expected="a Spark session", clean=_session_only, remedy="Give the session that tahoe.enable was given.")

# Conditions may use the columns of this many of the newest DataFrames that `toDF` returned.
_FRAMES_MAX = 100


class DeltaTable:
    """A Delta table in a Spark session. Every call sees the newest version.

    Created by `forPath`, `forName`, and the builder's `execute`.
    """

    def __init__(self, spark: SparkSession, table: Table, *, name: str | None = None, alias: str | None = None) -> None:
        self._spark = spark
        self._table = table
        self._name = name
        self._alias = alias
        # The newest DataFrames that `toDF` returned. Conditions may use their columns.
        self._frames: deque[DataFrame] = deque(maxlen=_FRAMES_MAX)

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] = MappingProxyType({})) -> DeltaTable:
        """Return the table in a folder.

        Args:
            hadoopConf: credentials and settings of the storage, with names that begin with `fs.` or `dfs.`.

        Raises:
            TableNotFoundError, NotADeltaTableError: the folder has no Delta table.
            InvalidOptionError: `hadoopConf` has another setting.
        """
        _check_session(sparkSession)
        settings = _taken(TEXTS, hadoopConf, "hadoopConf", str(path))
        place = _taken(LOCATION, path, "path")
        for name, value in settings.items():
            if not name.startswith(("fs.", "dfs.")):
                raise for_user(InvalidOptionError(option=name, value=value, table=place, detail="only fs.* and dfs.* can be given here"))
        return cls(sparkSession, _existing(open_table(sparkSession, place, settings)))

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Return the table that has a name in the session's catalog, or a path as in ``delta.`/data/t` ``.

        Raises:
            AnalysisException: the catalog does not have the name.
            NotADeltaTableError: the name is of a view, or of a table that is not a Delta table.
        """
        _check_session(sparkSession)
        name = _taken(TEXT, tableOrViewName, "tableOrViewName")
        location = raising_for_user(lambda: location_of(sparkSession, name))
        return cls(sparkSession, _existing(open_table(sparkSession, location)), name=name)

    @classmethod
    def convertToDelta(cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None) -> DeltaTable:  # noqa: ARG003  for later
        """Convert existing files, such as ``parquet.`/data/t` ``, to a Delta table. Not supported yet.

        Raises:
            OperationNotYetSupportedError
        """
        raise for_user(OperationNotYetSupportedError(operation="CONVERT TO DELTA", table=identifier, tahoe_version=VERSION))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Return whether there is a Delta table at a path."""
        _check_session(sparkSession)
        place = _taken(LOCATION, identifier, "identifier")
        return open_table(sparkSession, path_in(place) or place).exists()

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table; the table must not exist."""
        return DeltaTableBuilder(_session(sparkSession), "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table, and leaves an existing table unchanged."""
        return DeltaTableBuilder(_session(sparkSession), "createIfNotExists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that replaces a table and keeps its history; the table must exist."""
        return DeltaTableBuilder(_session(sparkSession), "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table, or replaces an existing table and keeps its history."""
        return DeltaTableBuilder(_session(sparkSession), "createOrReplace")

    def toDF(self) -> DataFrame:
        """Return the rows as a DataFrame, which reads the newest version each time it is planned.

        Conditions and values may use its columns: `table.delete(table.toDF().id == 3)`.
        """
        reader = self._spark.read.format("delta")
        frame = reader.load(self._table.url) if self._name is None else self._spark.table(self._name)
        self._frames.append(frame)
        return frame if self._alias is None else frame.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """Return the same table under an alias for use in conditions."""
        alias = _taken(TEXT, aliasName, "aliasName", self._table.url)
        same = DeltaTable(self._spark, self._table, name=self._name, alias=alias)
        same._frames = self._frames
        return same

    def delete(self, condition: str | Column | None = None) -> DataFrame:
        """Delete the rows for which a condition is true, or all rows. The condition may contain subqueries.

        Returns:
            one row: `num_affected_rows`, the number of deleted rows; -1 if whole files without a row count in the log were removed.

        Raises:
            AnalysisException: before any work, if the condition is invalid or the table does not allow the deletion.
            DeltaConcurrentModificationException: a concurrent commit conflicts.
        """
        command = Delete(target=self._target(), condition=self._condition(condition))
        return self._affected(lambda: delete(command))

    def update(self, condition: str | Column | None = None, set: Mapping[str, str | Column] | None = None) -> DataFrame:
        """Update the rows for which a condition is true, or all rows.

        Args:
            set: values by the names of columns or struct fields; strings are SQL. Values are computed from the old values of the row.

        Returns:
            one row: `num_affected_rows`, the number of updated rows.

        Raises:
            AnalysisException: before any work, if the condition or a value is invalid or the table does not allow the update.
            DeltaConcurrentModificationException: a concurrent commit conflicts.
        """
        target = self._target()
        assignments = assignments_of(target, set, "'set'")
        command = Update(target=target, assignments=assignments, condition=self._condition(condition))
        return self._affected(lambda: update(command))

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Return a builder of a MERGE, which updates, deletes and inserts rows according to the rows of a source.

        Args:
            condition: which rows of the source match which rows of the table. Columns are qualified with the aliases of the two.
        """
        if source is None:
            raise ValueError("'source' in merge cannot be None")
        if not isinstance(source, DataFrame):
            raise TypeError("Type of 'source' in merge must be DataFrame.")
        if condition is None:
            raise ValueError("'condition' in merge cannot be None")
        target = self._target()
        return DeltaMergeBuilder(Merge(target=target, source=source, condition=own_columns(target, condition_of(condition), source)))

    def reorg(self, where: str | Column | None = None, *, purge: bool = True, deletedShare: float = 0.0) -> DataFrame:
        """Rewrite files without the rows that deletion vectors mark. The table's rows do not change.

        Args:
            where: a condition on partition columns; only files of matching partitions are rewritten.
            purge: must be true; no other kind of reorganisation exists.
            deletedShare: only files in which deletion vectors mark more than this share of the rows are rewritten, from 0 to 1.

        Returns:
            one row: `numFilesRemoved`, `numFilesAdded`, `numBytesRemoved`, `numBytesAdded`.

        Raises:
            InvalidOptionError: an argument is invalid.
            DeltaConcurrentModificationException: a concurrent commit has changed one of the files.
        """
        if purge is not True:
            detail = "REORG can purge, and nothing else yet"
            raise for_user(InvalidOptionError(option="purge", value=purge, table=self._table.url, detail=detail))
        done = self._purged(self._condition(where), _taken(SHARE, deletedShare, "deletedShare", self._table.url))
        counts = (len(done.removed), len(done.added), sum(done.removed), sum(done.added))
        names = ("numFilesRemoved", "numFilesAdded", "numBytesRemoved", "numBytesAdded")
        return answered(self._spark, names, counts)

    def _purged(self, condition: Column | None, deleted_share: float = 0.0) -> Purged:
        command = Purge(target=self._target(), condition=condition, deleted_share=deleted_share)
        return run_for_user(self._spark, lambda: purge_files(command))

    def _reorganised(self, condition: Column | None) -> DataFrame:
        """Run REORG TABLE ... APPLY (PURGE), and return its result row."""
        row = purged_row(
            self._table.url,
            self._purged(condition),
            columns=len(self._table.snapshot().schema.fields),
            parallelism=self._spark.sparkContext.defaultParallelism,
        )
        return described(self._spark, [row], LAYOUT)

    def syncIdentity(self, columnName: str) -> None:
        """Advance the high-water mark of an identity column to the farthest value in the table, as `ALTER COLUMN ... SYNC IDENTITY` does.

        Raises:
            NotAnIdentityColumnError: the column is not an identity column.
        """
        run_for_user(self._spark, lambda: sync_identity(self._target(), TEXT(columnName, "columnName", table=self._table.url)))

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the table's protocol to at least these versions. It is never lowered.

        Raises:
            ValueError: a version is not an int.
            InvalidPropertyError: a version does not exist.
        """
        if not isinstance(readerVersion, int):
            raise ValueError(f"The readerVersion needs to be an integer but got '{type(readerVersion)}'.")
        if not isinstance(writerVersion, int):
            raise ValueError(f"The writerVersion needs to be an integer but got '{type(writerVersion)}'.")
        self._define(lambda changes: changes.upgrade_protocol(readerVersion, writerVersion))

    def addFeatureSupport(self, featureName: str) -> None:
        """Add support for a feature to the table's protocol. This alone does not enable the feature.

        Raises:
            ValueError: the name is not a str.
            InvalidPropertyError: the feature does not exist.
        """
        _verify(featureName, str, "featureName", "a string")
        self._define(lambda changes: changes.upgrade_protocol(features=[featureName]))

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Drop a feature from the table, with all its traces, so that readers and writers without the feature can use the table. Earlier
        versions keep the feature, unless the history is truncated.

        Raises:
            ValueError: an argument has the wrong type.
            FeatureDropError: the feature does not exist, the table does not have it, or something in the table needs it.
            FeatureDropWaitsError: with `truncateHistory`: the feature is no longer used, but the history cannot be truncated yet.
        """
        _verify(featureName, str, "featureName", "a string")
        if truncateHistory is not None:
            _verify(truncateHistory, bool, "truncateHistory", "a boolean")
        run_for_user(self._spark, lambda: drop_feature(self._target(), featureName, truncate_history=bool(truncateHistory)))

    def vacuum(self, retentionHours: float | None = None, *, lite: bool | None = None, dry_run: bool = False) -> DataFrame:
        """Delete the files that no version within the retention needs, and the folders that this leaves empty.

        Args:
            retentionHours: None for the table property `delta.deletedFileRetentionDuration`; so is a shorter time other than 0, unless
                `spark.databricks.delta.vacuum.retentionWindowIgnore.enabled` is false.
            lite: find the files in the log instead of listing the folder; None for `spark.databricks.delta.vacuum.lite.enabled`.
            dry_run: delete nothing.

        Returns:
            the column `path`: what was deleted, or with `dry_run` would be. The reference returns an empty DataFrame.

        Raises:
            VacuumRetentionTooShortError: the time is shorter than the table's, and
                `spark.databricks.delta.retentionDurationCheck.enabled` is not false.
            CannotVacuumLiteError: the log has lost commits that removed files.
        """
        hours = None if retentionHours is None else float(retentionHours)
        return paths_frame(self._spark, run_vacuum(self._spark, self._table, retention_hours=hours, lite=lite, dry_run=dry_run).paths)

    def generate(self, mode: str) -> None:
        """Write manifests for other engines. Not supported yet.

        Raises:
            InvalidOptionError: the mode is not `symlink_format_manifest`.
            OperationNotYetSupportedError
        """
        if str(mode).lower() != "symlink_format_manifest":
            detail = "the only mode is symlink_format_manifest"
            raise for_user(InvalidOptionError(option="mode", value=mode, table=self._table.url, detail=detail))
        raise self._later("GENERATE")

    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore the table to a version. Not supported yet.

        Raises:
            ValueError: the version is not an int.
            OperationNotYetSupportedError
        """
        _verify(version, int, "version", "an int")
        raise self._later("RESTORE")

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the table to a timestamp. Not supported yet.

        Raises:
            ValueError: the timestamp is not a str.
            OperationNotYetSupportedError
        """
        _verify(timestamp, str, "timestamp", "a string")
        raise self._later("RESTORE")

    def optimize(self) -> DeltaOptimizeBuilder:
        """Return a builder of an OPTIMIZE: which partitions it rewrites, and how."""
        return DeltaOptimizeBuilder(self)

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> DeltaTable:
        """Clone the table to another location. Not supported yet.

        Raises:
            ValueError: an argument has the wrong type.
            OperationNotYetSupportedError
        """
        _verify_clone(target, isShallow, replace, properties)
        raise self._later("CLONE")

    def cloneAtVersion(
        self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Clone a version of the table to another location. Not supported yet.

        Raises:
            as `clone`
        """
        _verify(version, int, "version", "an int")
        return self.clone(target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self, timestamp: str, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Clone the table as of a timestamp to another location. Not supported yet.

        Raises:
            as `clone`
        """
        _verify(timestamp, str, "timestamp", "a string")
        return self.clone(target, isShallow, replace, properties)

    def _later(self, operation: str) -> BaseException:
        return for_user(OperationNotYetSupportedError(operation=operation, table=self._table.url, tahoe_version=VERSION))

    def _define(self, change: Callable[[TransactionBuilder], None]) -> None:
        def run() -> None:
            with self._table.transaction(engine=engine_of(self._spark)) as changes:
                change(changes)

        run_for_user(self._spark, run)

    def _target(self) -> Target:
        parts = [] if self._name is None or self._alias is not None else qualified_name(self._spark, self._name)
        alias = parts[-1] if parts else self._alias
        return Target(spark=self._spark, table=self._table, alias=alias, qualifier=tuple(parts[:-1]), frames=tuple(self._frames))

    def _condition(self, given: str | Column | None) -> Column | None:
        return None if given is None else own_columns(self._target(), condition_of(given))

    def _affected(self, command: Callable[[], int]) -> DataFrame:
        count = run_for_user(self._spark, command)
        return answered(self._spark, COUNT, [count])

    def history(self, limit: int | None = None) -> DataFrame:
        """Return one row per commit, newest first: all commits, or the newest `limit`."""
        commits = raising_for_user(lambda: self._table.history(limit))
        return described(self._spark, [history_row(commit) for commit in commits], HISTORY)

    def _full_name(self) -> str | None:
        """The name with its catalog and database; None for a table that is addressed by path."""
        if self._name is None:
            return None
        identifier, _ = named_or_path(Gateway(self._spark), self._name)
        return None if identifier is None else str(identifier.unquotedString())

    def detail(self) -> DataFrame:
        """Return one row that describes the newest version of the table."""
        return described(self._spark, [detail_row(self._table.snapshot(), self._full_name())], DETAIL)


def _session(given: SparkSession | None) -> SparkSession:
    session = given if given is not None else SparkSession.getActiveSession()
    _check_session(session)
    assert session is not None
    return session


def _check_session(given: object) -> None:
    """Check that there is a session, as the reference asserts, and that it is a `SparkSession`; other objects would fail inside Spark."""
    assert given is not None, "there is no active Spark session"
    _taken(SESSION, given, "sparkSession")


def _taken(rule: Rule, value: object, argument: str, table: str = "the table") -> Any:
    """Check an argument that the reference passes to the JVM without a check."""
    return raising_for_user(lambda: rule(value, argument, table=table))


def _existing(table: Table) -> Table:
    raising_for_user(table.snapshot)
    return table


def _verify(value: object, kind: type, name: str, wanted: str) -> None:
    """Check an argument's type, with the reference's error message."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} needs to be {wanted} but got '{type(value)}'.")


def _verify_clone(target: object, is_shallow: object, replace: object, properties: Mapping[str, str] | None) -> None:
    _verify(target, str, "target", "a string")
    _verify(is_shallow, bool, "isShallow", "a boolean")
    _verify(replace, bool, "replace", "a boolean")
    if properties is not None:
        _verify(properties, dict, "properties", "a dict")
        for name, value in properties.items():
            _verify(name, str, f"All property keys including {name}", "a string")
            _verify(value, str, f"All property values including {value}", "a string")


class DeltaOptimizeBuilder:
    """A builder of an OPTIMIZE: which files it rewrites, and how. Neither way is supported yet. Created by `DeltaTable.optimize`."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Rewrite only files of the partitions for which a condition is true."""
        _verify(partitionFilter, str, "partitionFilter", "a string")
        return self

    def executeCompaction(self) -> DataFrame:
        """Compact small files.

        Raises:
            OperationNotYetSupportedError
        """
        raise self._table._later("OPTIMIZE")

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Cluster rows by the Z-order of some columns.

        Raises:
            OperationNotYetSupportedError
        """
        column_names("Z-order column must be str.", cols)
        raise self._table._later("OPTIMIZE ZORDER BY")


class DeltaTableBuilder(TableBuilder):
    """A builder of a new table: its name or location, columns, partitioning, comment and properties. `execute` creates the table."""

    def execute(self) -> DeltaTable:
        """Create the table.

        Raises:
            TableExistsError: `create`, and the table exists.
            TableNotFoundError: `replace`, and the table does not exist.
            DeltaAnalysisError: the columns or properties are invalid.
        """
        try:
            with cancellable(Gateway(self._spark)):
                table, name = self._make()
        except DeltaError as error:
            raise for_user(error) from None
        return DeltaTable(self._spark, table, name=name)
