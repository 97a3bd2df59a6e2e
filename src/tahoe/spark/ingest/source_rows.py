"""Reads source files by Spark's readers: which columns and types their rows have for a table, and what becomes of rows
that do not fit.

Text formats have no types of their own. CSV and JSON are read as what the table's columns are; a value that does not
fit is an error unless the statement says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from tahoe.errors import CopyColumnsError
from tahoe.protocol.changes.column_values import column_values
from tahoe.protocol.types.partition_folders import partition_of
from tahoe.spark.ingest.copy_request import TEXT_FORMATS, CopyRequest
from tahoe.spark.ingest.rescued import PATH, rescued_csv, rescued_json
from tahoe.spark.ingest.source_files import Source
from tahoe.spark.jvm.listed_files import ListedFiles
from tahoe.spark.jvm.types import spark_schema
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.writing.copied_files import SourceFile

# A column that is read beside those of the files.
_CORRUPT = "__tahoe_corrupt_record"
_FILE_PATH = "_metadata.file_path"

# Otherwise Spark would mix up the columns of a CSV file that has another header than the first, and would read files of
# the other formats as the columns and types that one of them has, without those that only others have.
_CHECKS = {
    "CSV": {"enforceSchema": "false"},
    "PARQUET": {"mergeSchema": "true"},
    "ORC": {"mergeSchema": "true"},
    "AVRO": {"mergeSchema": "true"},
}


@dataclass(slots=True, kw_only=True)
class SourceRows:
    """Rows of source files.

    Attributes:
        frame: with the columns for the table.
        bad: the rows that could not be read, with `path` and `record`; None if the statement does not ask for them.
    """

    frame: DataFrame
    bad: DataFrame | None = None

    def joined(self, other: SourceRows) -> SourceRows:
        """These rows and others. A column that only some have is null in the others."""
        bad = None if self.bad is None or other.bad is None else self.bad.unionByName(other.bad)
        return SourceRows(frame=self.frame.unionByName(other.frame, allowMissingColumns=True), bad=bad)

    def write_bad(self, folder: str) -> int:
        """Write the bad rows below a folder, as JSON. Returns how many there are."""
        assert self.bad is not None
        count = self.bad.count()
        if count:
            moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            self.bad.write.mode("append").json(f"{folder.rstrip('/')}/{moment}/bad_records")
        return count


@contextmanager
def source_rows(
    spark: SparkSession, request: CopyRequest, source: Source, files: Sequence[SourceFile], snapshot: Snapshot
) -> Iterator[SourceRows]:
    """The rows of some files of a source, as the columns of a version of a table.

    Raises:
        CopyColumnsError: columns are to be assigned by position, and their number differs.
        AnalysisException: Spark cannot read the files or analyse the expressions.
    """
    kept: list[DataFrame] = []
    try:
        found = []
        if request.format in TEXT_FORMATS:  # an empty file has no columns
            files = [file for file in files if file.size_bytes]
        for (base, partitions), group in _by_partition_columns(source, files).items():
            reading = _Reading(
                request=request,
                files=ListedFiles(spark, group, base),
                partitions=frozenset(name.lower() for name in partitions),
                snapshot=snapshot,
                kept=kept,
            )
            found.append(reading.rows())
        nothing = [] if found else [SourceRows(frame=spark.createDataFrame([], _some_column(snapshot)))]
        yield reduce(SourceRows.joined, [*found, *nothing])
    finally:
        for frame in kept:
            frame.unpersist()


def _by_partition_columns(
    source: Source, files: Sequence[SourceFile]
) -> dict[tuple[str | None, tuple[str, ...]], list[SourceFile]]:
    """The files by the partition columns that their folders make, and the folder below which these are; None if they
    make none. Spark would pass over those in other folders than the others, or refuse them.
    """
    found: dict[tuple[str | None, tuple[str, ...]], list[SourceFile]] = {}
    for file in files:
        folder = file.path.removeprefix(source.url + "/").rpartition("/")[0] if source.has_partitions else ""
        columns = tuple(name for name, _ in partition_of(folder))
        found.setdefault((_base(source.url, folder, len(columns)) if columns else None, columns), []).append(file)
    return found


def _base(url: str, folder: str, columns: int) -> str:
    """The folder above the partition folders of a path."""
    names = folder.split("/")
    last = max(place for place, name in enumerate(names) if "=" in name)
    return "/".join([url, *names[: last + 1 - columns]])


def _some_column(snapshot: Snapshot) -> StructType:
    """A column of the table that has nulls where rows lack it, for rows of files without any column, such as `{}`."""
    values = column_values(snapshot.protocol, snapshot.schema, table=snapshot.url)
    return StructType([f for f in spark_schema(snapshot.schema) if not values.has(f.name)][:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How some files are read.

    Attributes:
        partitions: the names of the columns that folders make, in lower case.
        kept: gets the rows that are kept until the work is done, so that good and bad rows are read once.
    """

    request: CopyRequest
    files: ListedFiles
    partitions: frozenset[str]
    snapshot: Snapshot
    kept: list[DataFrame]

    @property
    def _table(self) -> StructType:
        return spark_schema(self.snapshot.schema)

    def rows(self) -> SourceRows:
        request = self.request
        if request.rescued_column is not None:
            return SourceRows(frame=self._with_rescued(request.rescued_column))
        if request.bad_records_path is not None:
            return self._without_bad()
        options = self._options()
        if request.format in TEXT_FORMATS and request.format_option("mode") is None:
            options["mode"] = "FAILFAST"
        if request.format in TEXT_FORMATS and request.select is None:
            schema = self._schema(options)
            return SourceRows(frame=self._load(options, _as_read(schema)))
        return SourceRows(frame=self._selected(self._load(options, self._with_texts(options))))

    def _options(self, **ours: str) -> dict[str, str]:
        """The options of Spark's reader of the format: the user's, and ours, which count."""
        return {**_CHECKS.get(self.request.format, {}), **self.request.format_options, **ours}

    def _load(self, options: Mapping[str, str], schema: StructType | None = None) -> DataFrame:
        return self.files.rows(self.request.format, options, schema)

    # --- columns

    def _schema(self, options: Mapping[str, str], *besides: str) -> StructType:
        """The columns of the files, with the types that the table's columns have.

        Args:
            besides: columns of the files that do not count.
        """
        found = self._load(options).schema
        if self.request.is_positional:
            targets = self._targets(len(found))
            return StructType([StructField(name, self._type_of(name)) for name in targets])
        found = self._texts_of_folders(StructType([f for f in found if f.name not in besides]))
        in_files = StructType([f for f in found if f.name.lower() not in self.partitions])
        typed = {f.name: f for f in _like(in_files, self._table)}
        return StructType([typed.get(f.name, f) for f in found]) if len(found) else _some_column(self.snapshot)

    def _with_texts(self, options: Mapping[str, str]) -> StructType | None:
        """The columns to read, with partition columns as `_texts_of_folders`; None for those that the files have."""
        return self._texts_of_folders(self._load(options).schema) if self.partitions else None

    def _texts_of_folders(self, found: StructType) -> StructType:
        """The columns, with partition columns as texts where the table's column has another type than the one that
        Spark sees in the names of folders: it would make 5 of `hour=05`.
        """
        known = {f.name.lower(): f.dataType for f in self._table}

        def is_text(field: StructField) -> bool:
            name = field.name.lower()
            return name in self.partitions and known.get(name, field.dataType) != field.dataType

        return StructType([StructField(f.name, StringType()) if is_text(f) else f for f in found])

    def _type_of(self, name: str) -> DataType:
        return next(f.dataType for f in self._table if f.name.lower() == name.lower())

    def _targets(self, count: int) -> list[str]:
        """The table's columns that the source's are assigned to by position.

        Raises:
            CopyColumnsError: the source has another number of columns, or the table has no such column.
        """
        url, known = self.snapshot.url, {name.lower(): name for name in self._table.names}
        if self.request.columns is not None:
            unknown = [name for name in self.request.columns if name.lower() not in known]
            if unknown:
                detail = f"the table has no column {', '.join(unknown)}; it has {', '.join(known.values())}"
                raise CopyColumnsError(table=url, detail=detail, remedy="Check the list of columns.")
            targets = [known[name.lower()] for name in self.request.columns]
            if len(set(targets)) < len(targets):
                detail = "a column is in the list twice"
                raise CopyColumnsError(table=url, detail=detail, remedy="Name each column once.")
        else:
            values = column_values(self.snapshot.protocol, self.snapshot.schema, table=url)
            made = {*values.generated, *values.identity}
            targets = [name for name in self._table.names if name not in made]
        if len(targets) != count:
            detail = f"the source has {count} columns, and they are assigned to {len(targets)}: {', '.join(targets)}"
            remedy = "Name the columns that the source has, in its order: COPY INTO t (a, b) FROM ..."
            raise CopyColumnsError(table=url, detail=detail, remedy=remedy)
        return targets

    def _selected(self, frame: DataFrame) -> DataFrame:
        if self.request.select is None:
            return frame
        frame = frame.selectExpr(*self.request.select)
        return frame.toDF(*self._targets(len(frame.columns))) if self.request.is_positional else frame

    # --- rows that do not fit

    def _without_bad(self) -> SourceRows:
        """The rows that could be read, and those that could not. All are read once, with all columns: a reader that is
        asked for some columns looks at no others.
        """
        options = self._options(mode="PERMISSIVE", columnNameOfCorruptRecord=_CORRUPT)
        if self.request.select is None:
            schema = self._schema(options, _CORRUPT)
        else:
            found = self._texts_of_folders(self._load(options).schema)
            schema = StructType([f for f in found if f.name != _CORRUPT])
        columns = StructType([*_as_read(schema).fields, StructField(_CORRUPT, StringType())])
        rows = self._load(options, columns).withColumn(PATH, F.col(_FILE_PATH)).persist(StorageLevel.DISK_ONLY)
        self.kept.append(rows)
        is_bad = F.col(_CORRUPT).isNotNull()
        bad = rows.filter(is_bad).select(
            F.col(PATH).alias("path"), F.lit("malformed record").alias("reason"), F.col(_CORRUPT).alias("record")
        )
        good = rows.filter(~is_bad).drop(_CORRUPT, PATH)
        return SourceRows(frame=self._selected(good), bad=bad)

    def _with_rescued(self, column: str) -> DataFrame:
        if self.request.format == "JSON":
            options = self.request.format_options
            found = self._texts_of_folders(self.files.rows("TEXT", options).schema) if self.partitions else None
            lines = self.files.rows("TEXT", options, found).withColumn(PATH, F.col(_FILE_PATH))
            values = column_values(self.snapshot.protocol, self.snapshot.schema, table=self.snapshot.url)
            made = frozenset(name for name in self._table.names if values.has(name))
            return rescued_json(lines, self._table, column, made=made, options=options)
        options = self._options(inferSchema="false")
        columns = None
        if self.partitions:
            columns = StructType([StructField(f.name, StringType()) for f in self._load(options).schema])
        frame = self._load(options, columns)
        frame = frame.toDF(*self._targets(len(frame.columns))) if self.request.is_positional else frame
        return rescued_csv(frame.withColumn(PATH, F.col(_FILE_PATH)), self._table, column)


def _like(found: StructType, table: StructType) -> StructType:
    """The columns of files, with the types of the table's columns of the same names. Fields of structs that only the
    files have stay.
    """
    known = {f.name.lower(): f.dataType for f in table}
    return StructType(
        [
            StructField(
                f.name, _typed_like(f.dataType, known[f.name.lower()]) if f.name.lower() in known else f.dataType
            )
            for f in found
        ]
    )


def _typed_like(found: DataType, table: DataType) -> DataType:
    match found, table:
        case StructType(), StructType():
            return _like(found, table)
        case ArrayType(), ArrayType():
            return ArrayType(_typed_like(found.elementType, table.elementType))
        case MapType(), MapType():
            return MapType(table.keyType, _typed_like(found.valueType, table.valueType))
        case _:
            return table


def _as_read(schema: StructType) -> StructType:
    """The columns as text formats are read: Spark's reader of JSON would make -56 of 200 for a TINYINT. Values become
    those of the table's columns as in an INSERT, which checks them also where casts do not.
    """
    return StructType([StructField(f.name, _type_as_read(f.dataType)) for f in schema])


def _type_as_read(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return _as_read(data_type)
        case ArrayType():
            return ArrayType(_type_as_read(data_type.elementType))
        case MapType():
            return MapType(data_type.keyType, _type_as_read(data_type.valueType))
        case ByteType():
            return ShortType()
        case _:
            return data_type
