"""CONVERT TO DELTA: makes a folder of Parquet files a Delta table, by one commit. No data file is written, moved or
deleted.

Protocol: "Actions". The commit is put only after all files were examined, and after a second listing has shown that no
other program changed them meanwhile. CLONE of such a folder examines it in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tahoe._cached import cached_property
from tahoe.errors import (
    ConversionColumnMappingError,
    ConversionWithoutStatisticsError,
    DeltaError,
    EmptyFolderError,
    FilesChangedError,
    FileSchemaMismatchError,
    PathIsFileError,
    UnreadableFooterError,
    UnsupportedOperationError,
)
from tahoe.events.listeners import background_job
from tahoe.protocol.configuration.column_mapping import mapping_mode
from tahoe.protocol.configuration.features import supports
from tahoe.protocol.configuration.properties import STRING_PREFIX_LENGTH
from tahoe.protocol.log.actions import CONVERT, Add, Metadata, Protocol
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.types.merged_schema import Unmergeable, merged, with_partition_columns
from tahoe.protocol.types.partition_folders import PartitionReader, is_hidden, partition_of
from tahoe.protocol.types.schema import Struct, as_nullable
from tahoe.table.adoption.adopt import Adoption, adopt
from tahoe.table.adoption.clone_place import folders_above, has_table
from tahoe.table.adoption.convert_footers import Examined, Examiner, FooterQuestion, examined_in_threads
from tahoe.table.adoption.convert_sources import CatalogPartition, SourceFile, source_files
from tahoe.table.commit.checkpoint_writer import write_checkpoint
from tahoe.table.commit.draft import OperationInfo
from tahoe.table.commit.new_files import noted
from tahoe.table.layout.file_statistics import has_statistics
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.footers import indexed_columns
from tahoe.table.writing.planning import new_table
from tahoe.table.writing.write_request import WriteRequest

_logger = logging.getLogger("tahoe")

# How often the files are listed, if another program changes them meanwhile.
_LISTINGS_MAX = 5

# The files whose schemas are merged first. The statistics of all files are made for the columns of that schema, which
# usually is the schema of the table; otherwise the files with other columns are read a second time.
_FILES_FIRST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRequest:
    """What is converted, and into what kind of table.

    Attributes:
        partition_schema: the partition columns, in the order of the folders.
        statistics: whether files get statistics; statistics_setting: the caller's name of it, for errors.
        schema: of a catalog; None to merge the schemas of the files.
        partitions: of a catalog; None for those that the names of folders tell.
        uses_sink_log: whether the log of a stream that wrote the files decides which of them count.
        skips_unreadable: leave out files that are not Parquet files, instead of an error.
        unfit_becomes_null: a partition value that is not of its column's type is null, instead of an error.
        properties: of the table; default_properties: of any new table.
        catalog_table: the name in the catalog, for the history.
    """

    partition_schema: Struct = field(default_factory=lambda: Struct(()))
    statistics: bool = True
    statistics_setting: str = "statistics"
    schema: Struct | None = None
    partitions: Sequence[CatalogPartition] | None = None
    uses_sink_log: bool = True
    skips_unreadable: bool = False
    unfit_becomes_null: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    default_properties: Mapping[str, str] = field(default_factory=dict)
    catalog_table: str | None = None
    user_metadata: str | None = None
    engine: str | None = None

    @property
    def merges_schemas(self) -> bool:
        return self.schema is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertReport:
    """What CONVERT TO DELTA did.

    Attributes:
        version: the version that was committed, 0; None if there was a Delta table already.
        files, size_bytes: of the table.
        skipped: the files that were left out, each with the reason; only if the request allows it.
    """

    version: int | None = None
    files: int = 0
    size_bytes: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The table that a folder of Parquet files is, if they are taken as they are.

    Attributes:
        adds: the entries of its files.
        skipped: the files that were left out, each with the reason.
    """

    protocol: Protocol
    metadata: Metadata
    adds: Sequence[Add]
    skipped: Mapping[str, str]


def convert(table: TableReader, request: ConvertRequest, *, examiner: Examiner = examined_in_threads) -> ConvertReport:
    """Make a folder of Parquet files a Delta table. If there is a Delta table already, nothing is done.

    Args:
        examiner: reads the footers; threads of this process by default.

    Raises:
        as `survey`
    """
    if table.exists():
        _logger.info("%s is a Delta table already", table.url)
        return ConvertReport()
    return _commit(table, request, survey(table, request, examiner=examiner))


def survey(table: TableReader, request: ConvertRequest, *, examiner: Examiner = examined_in_threads) -> Survey:
    """Examine a folder of Parquet files. Nothing is changed.

    Raises:
        EmptyFolderError: there is no data file.
        UnexpectedPartitionCountError, UnexpectedPartitionColumnError, PartitionCastFailedError: the folders do not fit
            the columns.
        UnreadableFooterError, FileSchemaMismatchError, UnsupportedDataTypeError: a file cannot be a part of the table;
            the error names it.
        UnsupportedOperationError: the folder is a part of a Delta table, or contains a table.
        FilesChangedError: other programs keep changing the files.
    """
    _check_place(table)
    work = _Conversion(table, request, examiner)
    files, changed = _source_files(table, request), ""
    for _ in range(_LISTINGS_MAX):
        try:
            adds, failure = work.adds(files), None
        except UnreadableFooterError as error:  # perhaps of a file that another program deletes or replaces
            adds, failure = [], error
        before, files = files, _source_files(table, request)
        if files == before:
            if failure is not None:
                raise failure
            protocol, metadata = work.target
            return Survey(protocol=protocol, metadata=metadata, adds=adds, skipped=work.skipped(files))
        changed = min(file.key for file in {*before} ^ {*files})
    raise FilesChangedError(table=table.url, file=changed)


def _check_place(table: TableReader) -> None:
    """Refuse a folder that is inside a Delta table. `folders_above` also gives those of the place to which a link
    leads.
    """
    if table.log.is_file():
        raise PathIsFileError(table=table.url)
    for root in folders_above(table.url):
        is_below = table.url.startswith(f"{root}/")  # otherwise it is the place to which a link leads
        if is_below and is_hidden(f"{table.url[len(root) + 1 :]}/file"):
            continue  # a hidden folder never belongs to the table
        if has_table(table, root):
            raise UnsupportedOperationError(
                operation="Taking the folder for a Parquet table",
                table=table.url,
                detail=f"it is inside the Delta table {root}",
                remedy=f"Use the Delta table {root}, or move the folder.",
            )


def _source_files(table: TableReader, request: ConvertRequest) -> list[SourceFile]:
    files = source_files(table.env.store, uses_sink_log=request.uses_sink_log, partitions=request.partitions)
    if not files:
        raise EmptyFolderError(table=table.url)
    return files


def _commit(table: TableReader, request: ConvertRequest, found: Survey) -> ConvertReport:
    adoption, adds = _adoption(request, found), found.adds
    with noted():  # the reference, too, never compacts what it converts
        version = adopt(table, lambda newest: adoption if newest is None else None)
    if version is None:  # another writer has made a table of the folder meanwhile
        return ConvertReport()
    table.env.background(background_job("after_convert", table.url, version, lambda: _checkpoint(table, version)))
    return ConvertReport(
        version=version, files=len(adds), size_bytes=sum(add.size_bytes for add in adds), skipped=found.skipped
    )


def _adoption(request: ConvertRequest, found: Survey) -> Adoption:
    """The commit that makes the table."""
    count = len(found.adds)
    parameters = {
        "numFiles": count,
        "partitionedBy": list(found.metadata.partition_columns),
        "collectStats": request.statistics,
        **({} if request.catalog_table is None else {"catalogTable": request.catalog_table}),
        "sourceFormat": "parquet",
    }
    info = OperationInfo(
        operation=CONVERT,
        parameters=parameters,
        metrics={"numConvertedFiles": count},
        user_metadata=request.user_metadata,
        engine=request.engine,
    )
    return Adoption(protocol=found.protocol, metadata=found.metadata, added=found.adds, info=info)


def _checkpoint(table: TableReader, version: int) -> None:
    """Readers of many files are faster with a checkpoint, and it does not hurt if there is none."""
    try:
        write_checkpoint(table.snapshot(version))
    except DeltaError as error:
        _logger.debug("%s: no checkpoint of the converted table: %s", table.url, error)


class _Conversion:
    """The examination of one folder. Files that were examined are not read again."""

    def __init__(self, table: TableReader, request: ConvertRequest, examiner: Examiner) -> None:
        self.table, self.request = table, request
        self._examiner = examiner
        self._unreadable: dict[SourceFile, str] = {}
        self._known: dict[SourceFile, Examined] = {}
        self._question = FooterQuestion(store=table.env.store)
        self._schema = request.schema
        self._partitions = PartitionReader(
            request.partition_schema.fields,
            zone=table.log.zone,
            unfit_becomes_null=request.unfit_becomes_null,
            table=table.url,
        )

    def adds(self, files: Sequence[SourceFile]) -> list[Add]:
        """The entries of files in the log.

        Raises:
            as `survey`
        """
        values = [
            self._partitions.values(partition_of(f.folder) if f.partition is None else f.partition, f.key)
            for f in files
        ]
        if self._schema is None:
            self._examine(files[:: max(1, len(files) // _FILES_FIRST)])
            self._merge(files)
        self._ask()  # for the statistics of the columns that are known so far
        while self.request.statistics or self.request.merges_schemas:
            self._examine(files)
            self._merge(files)
            if not self._ask():
                break
        self._check_statistics()
        return [
            self._add(file, found) for file, found in zip(files, values, strict=True) if file not in self._unreadable
        ]

    def skipped(self, files: Iterable[SourceFile]) -> dict[str, str]:
        """Those of the files that were left out, by key, with the reason."""
        return {file.key: self._unreadable[file] for file in files if file in self._unreadable}

    def _add(self, file: SourceFile, values: Mapping[str, str | None]) -> Add:
        found = self._known.get(file)
        return Add(
            path=encode_path(file.key),
            partition_values=values,
            size_bytes=file.size_bytes,
            modification_time_ms=file.modified_ms,
            data_change=True,
            stats=None if found is None else found.statistics,
        )

    # --- footers

    def _examine(self, files: Sequence[SourceFile]) -> None:
        """Read the footers of the files that were not read yet, or of which statistics are asked for and missing
        (`_ask` has dropped those of other columns).
        """
        question = self._question
        readable = [f for f in files if f not in self._unreadable]
        todo = [
            f
            for f in readable
            if f not in self._known or (question.asks_for_statistics and self._known[f].statistics is None)
        ]
        for file, found in zip(todo, self._examiner(question, [file.key for file in todo]), strict=True):
            if isinstance(found, UnreadableFooterError) and self.request.skips_unreadable:
                _logger.warning("%s: %s is left out: %s", self.table.url, file.key, found)
                self._unreadable[file] = str(found.parameters["detail"])
            elif isinstance(found, BaseException):
                raise found
            else:
                self._known[file] = found

    def _merge(self, files: Sequence[SourceFile]) -> None:
        """The schema of the files that were examined, in the order of their keys."""
        if not self.request.merges_schemas:
            return
        schema, last = Struct(()), None
        for file in files:
            found = self._known.get(file)
            if found is None or found.schema is last:
                continue
            last = found.schema
            try:
                schema = merged(schema, found.schema)
            except Unmergeable as error:
                raise FileSchemaMismatchError(
                    table=self.table.url, file=file.key, detail=str(error), schema=found.schema
                ) from error
        if not len(schema):  # all files were left out
            raise EmptyFolderError(table=self.table.url)
        if schema != self._schema:
            self._schema = schema
            self.__dict__.pop("target", None)

    # --- the table

    @cached_property
    def target(self) -> tuple[Protocol, Metadata]:
        """Protocol and metadata of the table.

        Raises:
            DeltaAnalysisError: the schema or the properties are invalid.
            ConversionColumnMappingError: the properties enable column mapping.
        """
        assert self._schema is not None
        request, data = self.request, as_nullable(self._schema)
        assert isinstance(data, Struct)
        schema = with_partition_columns(data, request.partition_schema)
        names = request.partition_schema.names
        asked = WriteRequest(
            mode="error",
            schema=schema,
            partition_by=names,
            properties=request.properties,
            default_properties=request.default_properties,
            keep_nullability=True,
        )
        protocol, metadata = new_table(self.table, asked)
        mode = mapping_mode(protocol, metadata.configuration)
        if mode != "none":
            raise ConversionColumnMappingError(table=self.table.url, config="delta.columnMapping.mode", mode=mode)
        return protocol, metadata

    def _ask(self) -> bool:
        """Ask for the statistics of the table's columns from now on. Those that were made for other columns are
        dropped.

        Returns:
            whether the columns are other ones than before.
        """
        if not self.request.statistics:
            return False
        _, metadata = self.target
        columns = tuple(column for column in indexed_columns(metadata, "none") if has_statistics(column))
        if self._question.asks_for_statistics and columns == self._question.columns:
            return False
        self._known = {file: replace(found, statistics=None) for file, found in self._known.items()}
        prefix_length = STRING_PREFIX_LENGTH.get(metadata.configuration, table=self.table.url)
        self._question = replace(self._question, schema=metadata.schema, columns=columns, prefix_length=prefix_length)
        return True

    def _check_statistics(self) -> None:
        protocol, _ = self.target
        if supports(protocol, "rowTracking") and not self.request.statistics:
            raise ConversionWithoutStatisticsError(
                table=self.table.url,
                statisticsCollectionPropertyKey=self.request.statistics_setting,
                rowTrackingDefaultPropertyKey="delta.enableRowTracking",
            )
