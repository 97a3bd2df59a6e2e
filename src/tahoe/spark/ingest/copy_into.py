"""COPY INTO: loads the files of a folder that a table has not loaded yet, in one commit with the record of them.

The rows are read by Spark, and appended as by INSERT. If another commit is in conflict, the table is asked again what
is left to load. The data files that were written are committed all the same, unless some of their rows were loaded
meanwhile, or the table's columns or rules have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from tahoe.errors import CopyFileError, DeltaConcurrentModificationException, NoColumnsError
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.copied_files import FEATURE
from tahoe.spark.ingest.copy_request import CopyRequest
from tahoe.spark.ingest.source_files import Source, listed_source
from tahoe.spark.ingest.source_rows import source_rows
from tahoe.spark.jvm.failures import file_not_read
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, engine_of
from tahoe.spark.jvm.table_cache import recache
from tahoe.spark.writing.data_writer import Written, rows_for_files, translating_failures, write_rows
from tahoe.spark.writing.store_assignment import Refusals
from tahoe.spark.writing.write_inputs import table_schema, write_options
from tahoe.spark.writing.write_options import WriteOptions
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.writing.copied_files import Choice, chosen, commit_copied
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_plan import WritePlan

_logger = logging.getLogger("tahoe")

COPY_INTO = "COPY INTO"

# As often as this other commits may be first. Each of them has committed something, so somebody gets on.
ATTEMPTS_MAX = 100

# Before another attempt it waits for up to so long, so that rivals do not meet again at once.
_PAUSE_SECONDS = 0.2

# A preview shows so many rows.
_PREVIEW_ROWS = 50

COPIED = StructType(
    [
        StructField("num_affected_rows", LongType()),
        StructField("num_inserted_rows", LongType()),
        StructField("num_skipped_corrupt_files", LongType()),
        StructField("num_loaded_files", LongType()),
        StructField("num_skipped_files", LongType()),
        StructField("num_changed_files", LongType()),
        StructField("num_bad_records", LongType()),
    ]
)
"""The result of COPY INTO, one row. The first three columns are those of Databricks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What a COPY INTO did.

    Attributes:
        version: the version that was committed; None if there was nothing to load.
        rows: that were appended.
        loaded, skipped: numbers of files; skipped are those that had been loaded before.
        changed: how many of the skipped files have another size or modification time than when they were loaded.
        bad: rows that were written to `badRecordsPath`.
        knows_corrupt: whether corrupt files would have been an error, so that there were none.
    """

    version: int | None = None
    rows: int = 0
    loaded: int = 0
    skipped: int = 0
    changed: int = 0
    bad: int = 0
    knows_corrupt: bool = True

    @property
    def row(self) -> dict[str, int | None]:
        corrupt = 0 if self.knows_corrupt else None
        values = (self.rows, self.rows, corrupt, self.loaded, self.skipped, self.changed, self.bad)
        return dict(zip(COPIED.names, values, strict=True))


def copy_into(spark: SparkSession, table: Table, request: CopyRequest) -> CopyReport:
    """Load the files that the table has not loaded yet.

    Raises:
        DeltaAnalysisError: the source, the options or the rows do not fit the table. Nothing was committed.
        CopyFileError: a file cannot be read, or has a row that does not fit. Nothing was committed.
        WriteFailedError: Spark's job failed. Nothing was committed.
        CopiedFilesLostError: it is unknown what was loaded.
        DeltaConcurrentModificationException: other commits were first too often.
        CommitOutcomeUnknownError: the storage did not tell whether the commit was written. To run it again is safe.
    """
    source = listed_source(spark, request, table=table.url)
    return _Load(spark=spark, table=table, request=request, source=source).run()


@dataclass(slots=True, kw_only=True)
class _Written:
    """Data files that wait for their commit, and what they were written for."""

    plan: WritePlan
    choice: Choice
    files: Written
    bad: int

    def fits(self, snapshot: Snapshot, choice: Choice) -> bool:
        """Whether the files have the rows that are still to be loaded, as the table wants them now."""
        before = self.plan.snapshot
        assert before is not None
        upgraded = {*supported_features(before.protocol), FEATURE} == supported_features(snapshot.protocol)
        same_protocol = snapshot.protocol == before.protocol or (upgraded and self.plan.protocol == before.protocol)
        return choice.files == self.choice.files and same_protocol and snapshot.metadata == before.metadata


@dataclass(slots=True, kw_only=True)
class _Load:
    """A COPY INTO at work."""

    spark: SparkSession
    table: Table
    request: CopyRequest
    source: Source
    written: _Written | None = field(default=None, init=False)

    def run(self) -> CopyReport:
        env = self.table.env
        try:
            for left in reversed(range(ATTEMPTS_MAX)):
                try:
                    return self._attempt()
                except DeltaConcurrentModificationException:
                    if not left:
                        raise
                env.sleep(env.random() * _PAUSE_SECONDS)
            raise AssertionError("the last attempt has raised its error")
        except BaseException:
            self._discard()
            raise

    def _attempt(self) -> CopyReport:
        snapshot = self.table.snapshot()
        choice = chosen(
            snapshot, self.source.files, force=self.request.force, reloads_changed=self.request.reloads_changed
        )
        if self.written is not None and not self.written.fits(snapshot, choice):
            self._discard()
        if not choice.files:
            return self._report(choice)
        if self.written is None:
            self.written = self._write(snapshot, choice)
        written = self.written
        plan = _behind(written.plan, snapshot)
        discarded: list[bool] = []
        metrics = {
            **written.files.metrics,
            "numLoadedFiles": len(choice.files),
            "numSkippedFiles": choice.skipped,
            **({"numSkippedCorruptFiles": 0} if self._knows_corrupt else {}),
        }
        try:
            version = commit_copied(plan, choice, written.files.files, metrics, lambda: discarded.append(True))
        except BaseException:
            if not discarded:  # it may be committed, so that readers need its files
                self.written = None
            raise
        self.written = None
        recache(Gateway(self.spark), self.table.url)
        self._tell_feature(snapshot, version)
        return replace(self._report(choice), version=version, rows=written.files.num_records, bad=written.bad)

    def _report(self, choice: Choice) -> CopyReport:
        return CopyReport(
            loaded=len(choice.files),
            skipped=choice.skipped,
            changed=choice.changed,
            knows_corrupt=self._knows_corrupt,
        )

    @property
    def _knows_corrupt(self) -> bool:
        """Whether corrupt files are an error: the option decides, and else the session."""
        if self.request.format_option("ignoreCorruptFiles") is not None:
            return not self.request.format_flag("ignoreCorruptFiles", table=self.table.url)
        return self.spark.conf.get("spark.sql.files.ignoreCorruptFiles") != "true"

    def _write(self, snapshot: Snapshot, choice: Choice) -> _Written:
        """Write the rows of the chosen files. Bad rows are written first, so that no commit lacks them."""
        with (
            _naming_files(self.table),
            source_rows(self.spark, self.request, self.source, choice.files, snapshot) as rows,
        ):
            plan, options = _planned(self.table, self.request, self.source, rows.frame)
            refusals = Refusals(plan.url, options.assigns)
            with translating_failures(plan, refusals):
                completed = rows_for_files(plan, rows.frame, refusals)
                bad = 0 if rows.bad is None else rows.write_bad(str(self.request.bad_records_path))
            files = write_rows(plan, options, completed, refusals, is_clustered=True)
        return _Written(plan=plan, choice=choice, files=files, bad=bad)

    def _discard(self) -> None:
        written, self.written = self.written, None
        if written is not None:
            written.files.discard()

    def _tell_feature(self, before: Snapshot, version: int | None) -> None:
        if FEATURE not in supported_features(before.protocol):
            _logger.warning(
                "%s: version %s adds the writer feature %s, which stores which files were loaded; writers without it "
                "can no longer write to the table",
                self.table.url,
                version,
                FEATURE,
            )


def _behind(plan: WritePlan, snapshot: Snapshot) -> WritePlan:
    """The plan on a later version, whose columns and rules are the same."""
    if plan.snapshot is snapshot:
        return plan
    before = plan.snapshot
    assert before is not None
    protocol = snapshot.protocol if plan.protocol == before.protocol else plan.protocol
    metadata = snapshot.metadata if plan.metadata == before.metadata else plan.metadata
    return replace(plan, snapshot=snapshot, protocol=protocol, metadata=metadata)


def _planned(table: Table, request: CopyRequest, source: Source, frame: DataFrame) -> tuple[WritePlan, WriteOptions]:
    """The append of the rows to the newest version."""
    if not frame.columns:
        raise NoColumnsError(table=table.url)
    spark = frame.sparkSession
    options = write_options(spark, {"mergeSchema": "true"} if request.merge_schema else {}, table)
    schema = table_schema(frame, table=table.url, like=table.snapshot().schema, policy=options.assigns)
    asked = replace(
        options.request("append", schema),
        txn=None,
        finds_rows=True,
        operation=COPY_INTO,
        parameters={"source": source.url, "format": request.format},
        engine=engine_of(spark),
    )
    plan = plan_write(table, asked)
    assert plan is not None  # it is an append without a transaction identifier
    return plan, options


@contextmanager
def _naming_files(table: Table) -> Iterator[None]:
    """Name the file that Spark could not read."""
    try:
        yield
    except JVM_ERRORS as error:
        if (found := file_not_read(error)) is None:
            raise
        file, detail = found
        raise CopyFileError(table=table.url, file=file, detail=detail) from error


def preview(spark: SparkSession, table: Table, request: CopyRequest, rows_max: int | None) -> DataFrame:
    """Check rows as COPY INTO would load them, and return some of them. Nothing is written.

    Args:
        rows_max: how many are checked; None for all.

    Raises:
        as `copy_into`.
    """
    source = listed_source(spark, request, table=table.url)
    snapshot = table.snapshot()
    choice = chosen(snapshot, source.files, force=request.force, reloads_changed=request.reloads_changed)
    if not choice.files:
        return _materialised(spark.read.format("delta").load(table.url).limit(0))
    with _naming_files(table), source_rows(spark, request, source, choice.files, snapshot) as rows:
        plan, options = _planned(table, request, source, rows.frame)
        refusals = Refusals(plan.url, options.assigns)
        with translating_failures(plan, refusals):
            frame = rows_for_files(plan, rows.frame, refusals).frame
            if rows_max is None or rows_max > _PREVIEW_ROWS:
                checked = frame if rows_max is None else frame.limit(rows_max)
                checked.write.format("noop").mode("overwrite").save()
            return _materialised(frame.limit(min(rows_max or _PREVIEW_ROWS, _PREVIEW_ROWS)))


def _materialised(frame: DataFrame) -> DataFrame:
    """The rows, computed now and kept."""
    return frame.localCheckpoint(eager=True)
