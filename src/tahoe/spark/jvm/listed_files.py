"""Reads files by Spark's readers as they were listed: Spark lists nothing again.

What the rows, the columns and their checks are, Spark decides as for files that it lists itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StringType, StructField, StructType, VariantType

from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.table.writing.copied_files import SourceFile

# Otherwise Spark would take a path for a pattern, count a file as loaded that is gone when it is read, and pass over
# other files than `is_hidden` says (since Spark 4.3, where the session may say which).
_FIXED = {"__globPaths__": "false", "ignoreMissingFiles": "false", "ignoredPathSegmentRegex": "^[._]"}

# Formats whose columns are found line by line.
_BY_LINES = ("CSV", "JSON")

# With these, columns are not found line by line: the format's own inference finds them, and lists the files for itself.
_NOT_BY_LINES = frozenset({"encoding", "charset", "singlevariantcolumn"})

# With these, the columns of Avro files are not those of all files.
_OF_ONE_FILE = frozenset({"avroschema", "avroschemaurl", "ignorecorruptfiles"})

# Spark has Avro's reader, but knows it by its short name only with the package spark-avro.
_CLASSES = {"AVRO": "org.apache.spark.sql.avro.AvroFileFormat"}

# The column of lines.
_LINE = StructType([StructField("value", StringType())])


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """Some files of a source.

    Attributes:
        base: the folder below which folders make partition columns; None if they make none.
    """

    spark: SparkSession
    files: Sequence[SourceFile]
    base: str | None
    _known: JavaObject = field(init=False)

    def __post_init__(self) -> None:
        listing = "".join(f"{file.path}\0{file.size_bytes}\0{file.modified_ms}\0" for file in self.files)
        gateway = Gateway(self.spark)
        object.__setattr__(self, "_known", gateway.java_class("delta.SourceFiles")(gateway.session, listing))

    def rows(self, file_format: str, options: Mapping[str, str], schema: StructType | None = None) -> DataFrame:
        """The rows of the files.

        Args:
            options: of Spark's reader; of two that differ in case the last one counts.
            schema: the columns, with those of partitions; by default those that the files have.

        Raises:
            AnalysisException: the format cannot have such columns, or finds none in the files.
            SparkException: the files cannot be read to find their columns.
        """
        gateway = Gateway(self.spark)
        found = None if schema is None else gateway.struct(schema)
        in_files = self._columns_of_lines(file_format, options) if schema is None else None
        like = self._reader(file_format, options).schema(_some_column(file_format, options)).load([])
        rows = self._known.rows(like._jdf, found, in_files, _merges(file_format, options))
        if rows is not None:
            return DataFrame(rows, self.spark)
        reader = self._reader(file_format, options)
        reader = reader if schema is None else reader.schema(schema)
        return reader.load([file.path for file in self.files])

    def _columns_of_lines(self, file_format: str, options: Mapping[str, str]) -> JavaObject | None:
        """The columns of files of a text format as Spark infers them line by line, as its `StructType`; None if it does
        not do so.
        """
        given = _by_lower_name(options)
        is_whole = given.get("multiline", "").lower() == "true"
        if file_format not in _BY_LINES or given.keys() & _NOT_BY_LINES or (is_whole and file_format == "CSV"):
            return None
        files = self if self.base is None else ListedFiles(self.spark, self.files, None)
        lines = files.rows("TEXT", {**options, **({"wholetext": "true"} if is_whole else {})}, _LINE)
        # what becomes of a header that is not that of the columns, and of a record that is malformed, is decided when
        # the rows are read, where Spark names the file
        when_read = {"enforceSchema": "true", **({"mode": "DROPMALFORMED"} if _fails_fast(given) else {})}
        reader = self._reader(file_format, {**options, **when_read})
        columns_of = Gateway(self.spark).java_class("delta.SourceFiles").columnsOf
        return columns_of(lines._jdf, reader._jreader, file_format)

    def _reader(self, file_format: str, options: Mapping[str, str]) -> DataFrameReader:
        below = {} if self.base is None else {"basePath": self.base}
        return (
            self.spark.read.format(_CLASSES.get(file_format, file_format.lower()))
            .options(**options)
            .options(**_FIXED, **below)
        )


def _some_column(file_format: str, options: Mapping[str, str]) -> StructType:
    """Columns with which a reader infers nothing."""
    variant = _by_lower_name(options).get("singlevariantcolumn") if file_format in _BY_LINES else None
    return _LINE if variant is None else StructType([StructField(variant, VariantType())])


def _merges(file_format: str, options: Mapping[str, str]) -> bool:
    """Whether a format whose own inference asks one file for its columns is to have those of all files."""
    given = _by_lower_name(options)
    return file_format == "AVRO" and given.get("mergeschema") == "true" and not given.keys() & _OF_ONE_FILE


def _fails_fast(given: Mapping[str, str]) -> bool:
    """Whether a malformed record is an error."""
    return given.get("mode", "").upper() == "FAILFAST"


def _by_lower_name(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}
