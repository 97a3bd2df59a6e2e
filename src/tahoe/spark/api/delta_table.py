"""`DeltaTable`: what the reference's Python users know, under the same names.

    from tahoe import DeltaTable
    DeltaTable.forPath(spark, "/data/flights").history().show()

Arguments, their checks and the columns of results are the reference's. The work is done elsewhere; this module translates.
"""

# ruff: noqa: N802, N803, TRY004  the reference's names, and the errors that it raises for arguments

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
    if type(value).__name__ != SparkSession.__name__ and not isinstance(value, SparkSession):  # that of Spark Connect is another class
        raise Unfit
    return value


SESSION = Rule(expected="a Spark session", clean=_session_only, remedy="Give the session that tahoe.enable was given.")

# Columns of DataFrames that were given out before so many others are not known to conditions any more.
_FRAMES_MAX = 100


class DeltaTable:
    """A Delta table in a Spark session. Every question sees the newest version.

    Made by `forPath`, `forName`, and the builder's `execute`.
    """

    def __init__(self, spark: SparkSession, table: Table, *, name: str | None = None, alias: str | None = None) -> None:
        self._spark = spark
        self._table = table
        self._name = name
        self._alias = alias
        # The last DataFrames that were given out, whose columns may stand in conditions.
        self._frames: deque[DataFrame] = deque(maxlen=_FRAMES_MAX)

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] = MappingProxyType({})) -> DeltaTable:
        """The table in a folder.

        Args:
            hadoopConf: credentials and settings of the storage, with names that begin with `fs.` or `dfs.`.

        Raises:
            TableNotFoundError, NotADeltaTableError: there is no Delta table.
            InvalidOptionError: another setting in `hadoopConf`.
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
        """The table of a name in the session's catalog, or of a path as ``delta.`/data/t` ``.

        Raises:
            AnalysisException: there is no such name.
            NotADeltaTableError: it is no Delta table, or a view.
        """
        _check_session(sparkSession)
        name = _taken(TEXT, tableOrViewName, "tableOrViewName")
        location = raising_for_user(lambda: location_of(sparkSession, name))
        return cls(sparkSession, _existing(open_table(sparkSession, location)), name=name)

    @classmethod
    def convertToDelta(cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None) -> DeltaTable:  # noqa: ARG003  for later
        """Make a Delta table of files that are there, such as ``parquet.`/data/t` ``. It is still to come.

        Raises:
            OperationNotYetSupportedError
        """
        raise for_user(OperationNotYetSupportedError(operation="CONVERT TO DELTA", table=identifier, tahoe_version=VERSION))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a Delta table at a path."""
        _check_session(sparkSession)
        place = _taken(LOCATION, identifier, "identifier")
        return open_table(sparkSession, path_in(place) or place).exists()

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a table that is not there yet."""
        return DeltaTableBuilder(_session(sparkSession), "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder that leaves a table that is there as it is."""
        return DeltaTableBuilder(_session(sparkSession), "createIfNotExists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder that makes a table anew, keeping its history; it must be there."""
        return DeltaTableBuilder(_session(sparkSession), "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder that makes a table anew, keeping its history, or for the first time."""
        return DeltaTableBuilder(_session(sparkSession), "createOrReplace")

    def toDF(self) -> DataFrame:
        """The rows. The DataFrame sees the newest version each time it is planned.

        Its columns may stand in conditions and values: `table.delete(table.toDF().id == 3)`.
        """
        reader = self._spark.read.format("delta")
        frame = reader.load(self._table.url) if self._name is None else self._spark.table(self._name)
        self._frames.append(frame)
        return frame if self._alias is None else frame.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name for conditions."""
        alias = _taken(TEXT, aliasName, "aliasName", self._table.url)
        same = DeltaTable(self._spark, self._table, name=self._name, alias=alias)
        same._frames = self._frames
        return same

    def delete(self, condition: str | Column | None = None) -> DataFrame:
        """Delete the rows for which a condition is true; all rows where there is none. Subqueries may stand in it.

        Returns:
            one row: `num_affected_rows`, how many were deleted; -1 where whole files went whose rows nobody has counted.

        Raises:
            AnalysisException: before any work, where the condition or the table does not allow it.
            DeltaConcurrentModificationException: another writer was first, and it matters.
        """
        command = Delete(target=self._target(), condition=self._condition(condition))
        return self._affected(lambda: delete(command))

    def update(self, condition: str | Column | None = None, set: Mapping[str, str | Column] | None = None) -> DataFrame:
        """Give the rows for which a condition is true other values; all rows where there is none.

        Args:
            set: values by the names of columns, or of fields of structs; texts are SQL. They are computed from the values before.

        Returns:
            one row: `num_affected_rows`, how many rows got values.

        Raises:
            AnalysisException: before any work, where the condition, a value or the table does not allow it.
            DeltaConcurrentModificationException: another writer was first, and it matters.
        """
        target = self._target()
        assignments = assignments_of(target, set, "'set'")
        command = Update(target=target, assignments=assignments, condition=self._condition(condition))
        return self._affected(lambda: update(command))

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Update, delete and add rows by those of a source.

        Args:
            condition: by which a row of the source matches one of the table. Columns go by the aliases that both were given.
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
        """Write files again without the rows that deletion vectors mark; no row changes, and no other writer is disturbed.

        Args:
            where: a condition on partition columns: only files of these partitions.
            purge: must be true: the one kind of reorganisation there is.
            deletedShare: only files of whose rows more than this share is marked, from 0 to 1.

        Returns:
            one row: `numFilesRemoved`, `numFilesAdded`, `numBytesRemoved`, `numBytesAdded`.

        Raises:
            InvalidOptionError: an argument that cannot be.
            DeltaConcurrentModificationException: another writer has changed one of the files.
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
        """REORG TABLE ... APPLY (PURGE), with the columns of its result."""
        row = purged_row(
            self._table.url,
            self._purged(condition),
            columns=len(self._table.snapshot().schema.fields),
            parallelism=self._spark.sparkContext.defaultParallelism,
        )
        return described(self._spark, [row], LAYOUT)

    def syncIdentity(self, columnName: str) -> None:
        """Let an identity column count on from the farthest value that the table has in it, as `ALTER COLUMN ... SYNC IDENTITY` does.

        Raises:
            NotAnIdentityColumnError: it is no identity column.
        """
        run_for_user(self._spark, lambda: sync_identity(self._target(), TEXT(columnName, "columnName", table=self._table.url)))

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the table's protocol to at least these versions. It is never lowered.

        Raises:
            ValueError: a version that is no int.
            InvalidPropertyError: a version that does not exist.
        """
        if not isinstance(readerVersion, int):
            raise ValueError(f"The readerVersion needs to be an integer but got '{type(readerVersion)}'.")
        if not isinstance(writerVersion, int):
            raise ValueError(f"The writerVersion needs to be an integer but got '{type(writerVersion)}'.")
        self._define(lambda changes: changes.upgrade_protocol(readerVersion, writerVersion))

    def addFeatureSupport(self, featureName: str) -> None:
        """Let the table's protocol support a feature. That alone switches nothing on.

        Raises:
            ValueError: a name that is no str.
            InvalidPropertyError: there is no such feature.
        """
        _verify(featureName, str, "featureName", "a string")
        self._define(lambda changes: changes.upgrade_protocol(features=[featureName]))

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a feature from the table, with all that the table has of it, so that readers and writers that do not know it can go on. The
        versions before keep it, unless the history is truncated.

        Raises:
            ValueError: an argument of another type.
            FeatureDropError: it does not exist, or not here; or something of the table needs it.
            FeatureDropWaitsError: with `truncateHistory`: it is used no more, and the history cannot be cut off yet.
        """
        _verify(featureName, str, "featureName", "a string")
        if truncateHistory is not None:
            _verify(truncateHistory, bool, "truncateHistory", "a boolean")
        run_for_user(self._spark, lambda: drop_feature(self._target(), featureName, truncate_history=bool(truncateHistory)))

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that no version within the retention needs. It is still to come.

        Raises:
            OperationNotYetSupportedError
        """
        if retentionHours is not None:
            float(retentionHours)
        raise self._later("VACUUM")

    def generate(self, mode: str) -> None:
        """Write manifests for other engines. It is still to come.

        Raises:
            InvalidOptionError: another mode than `symlink_format_manifest`.
            OperationNotYetSupportedError
        """
        if str(mode).lower() != "symlink_format_manifest":
            detail = "the only mode is symlink_format_manifest"
            raise for_user(InvalidOptionError(option="mode", value=mode, table=self._table.url, detail=detail))
        raise self._later("GENERATE")

    def restoreToVersion(self, version: int) -> DataFrame:
        """Make the table what it was at a version. It is still to come.

        Raises:
            ValueError: a version that is no int.
            OperationNotYetSupportedError
        """
        _verify(version, int, "version", "an int")
        raise self._later("RESTORE")

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Make the table what it was at a time. It is still to come.

        Raises:
            ValueError: a timestamp that is no str.
            OperationNotYetSupportedError
        """
        _verify(timestamp, str, "timestamp", "a string")
        raise self._later("RESTORE")

    def optimize(self) -> DeltaOptimizeBuilder:
        """A builder that says which partitions are written again, and how."""
        return DeltaOptimizeBuilder(self)

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> DeltaTable:
        """Make a table like this one in another place. It is still to come.

        Raises:
            ValueError: an argument of another type.
            OperationNotYetSupportedError
        """
        _verify_clone(target, isShallow, replace, properties)
        raise self._later("CLONE")

    def cloneAtVersion(
        self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Make a table like this one at a version in another place. It is still to come.

        Raises:
            as `clone`
        """
        _verify(version, int, "version", "an int")
        return self.clone(target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self, timestamp: str, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Make a table like this one at a time in another place. It is still to come.

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
        """The commits, newest first: one row each, or the newest `limit`."""
        commits = raising_for_user(lambda: self._table.history(limit))
        return described(self._spark, [history_row(commit) for commit in commits], HISTORY)

    def _full_name(self) -> str | None:
        """The name with its catalog and database; None for a table that goes by its path."""
        if self._name is None:
            return None
        identifier, _ = named_or_path(Gateway(self._spark), self._name)
        return None if identifier is None else str(identifier.unquotedString())

    def detail(self) -> DataFrame:
        """One row that describes the table as it is."""
        return described(self._spark, [detail_row(self._table.snapshot(), self._full_name())], DETAIL)


def _session(given: SparkSession | None) -> SparkSession:
    session = given if given is not None else SparkSession.getActiveSession()
    _check_session(session)
    assert session is not None
    return session


def _check_session(given: object) -> None:
    """The reference asserts that there is one; what else is given would fail in Spark's own code."""
    assert given is not None, "there is no active Spark session"
    _taken(SESSION, given, "sparkSession")


def _taken(rule: Rule, value: object, argument: str, table: str = "the table") -> Any:
    """An argument that the reference hands to the JVM unseen."""
    return raising_for_user(lambda: rule(value, argument, table=table))


def _existing(table: Table) -> Table:
    raising_for_user(table.snapshot)
    return table


def _verify(value: object, kind: type, name: str, wanted: str) -> None:
    """The reference's check of an argument, and its words."""
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
    """Says which files are written again, and how; both ways are still to come. Made by `DeltaTable.optimize`."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only files of the partitions for which a condition is true."""
        _verify(partitionFilter, str, "partitionFilter", "a string")
        return self

    def executeCompaction(self) -> DataFrame:
        """Write small files together.

        Raises:
            OperationNotYetSupportedError
        """
        raise self._table._later("OPTIMIZE")

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Write rows that are alike in some columns together.

        Raises:
            OperationNotYetSupportedError
        """
        column_names("Z-order column must be str.", cols)
        raise self._table._later("OPTIMIZE ZORDER BY")


class DeltaTableBuilder(TableBuilder):
    """Says how a table is made: its name or place, columns, partitioning, comment and properties; `execute` makes it."""

    def execute(self) -> DeltaTable:
        """Make the table.

        Raises:
            TableExistsError: `create`, and it is there.
            TableNotFoundError: `replace`, and it is not.
            DeltaAnalysisError: the columns or properties are none that a table can have.
        """
        try:
            with cancellable(Gateway(self._spark)):
                table, name = self._make()
        except DeltaError as error:
            raise for_user(error) from None
        return DeltaTable(self._spark, table, name=name)
