"""What a COPY INTO asks for, checked: the format, the choice of files, and the options.

Pure. Names are those of Databricks; each option is read in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tahoe.errors import CopyFormatError, CopyOptionError, CopyUnsupportedError, InvalidOptionError
from tahoe.spark.configuration.flags import parse_flag

FORMATS = ("CSV", "JSON", "PARQUET", "AVRO", "ORC", "TEXT", "BINARYFILE")

# Formats whose values are texts, which are read as what the table's columns are.
TEXT_FORMATS = ("CSV", "JSON")

_COPY_OPTIONS = ("mergeSchema", "force", "allowOverwrites")

# Options of Spark's readers that select files or what becomes of bad rows: they are ours, since the record of loaded
# files depends on the first, and Spark has no such thing as the second.
_OWN_OPTIONS = (
    *("pathGlobFilter", "modifiedBefore", "modifiedAfter", "recursiveFileLookup"),
    *("badRecordsPath", "rescuedDataColumn"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """A COPY INTO.

    Attributes:
        source: a folder or a file.
        format: one of `FORMATS`.
        select: the expressions that make the columns; None for the columns of the files.
        columns: the target's columns that the source's are assigned to by position.
        by_position: assign the source's columns by position to all columns that the table does not make itself.
        files: names below the source.
        pattern: a glob for the paths below the source.
        format_options: of Spark's reader, without those of `own_options`.
        own_options: by their names in lower case.
        merge_schema: add new columns to the table.
        force: load files also if they were loaded before.
        reloads_changed: load files again that have changed since they were loaded.
    """

    source: str
    format: str
    select: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    by_position: bool = False
    files: tuple[str, ...] | None = None
    pattern: str | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)
    own_options: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool = False
    force: bool = False
    reloads_changed: bool = False

    @property
    def is_positional(self) -> bool:
        return self.by_position or self.columns is not None

    @property
    def bad_records_path(self) -> str | None:
        return self.own_options.get("badrecordspath")

    @property
    def rescued_column(self) -> str | None:
        return self.own_options.get("rescueddatacolumn")

    def format_option(self, *names: str) -> str | None:
        """The value of an option of the reader, by its names."""
        known = {name.lower(): value for name, value in self.format_options.items()}
        return next((known[name.lower()] for name in names if name.lower() in known), None)

    def format_flag(self, name: str, *, table: str) -> bool:
        text = self.format_option(name)
        return text is not None and parse_flag(text, name, table=table)


def checked_format(text: str, *, table: str) -> str:
    """The format that a text means.

    Raises:
        CopyFormatError
    """
    if text.upper() not in FORMATS:
        raise CopyFormatError(table=table, format=text, formats=", ".join(FORMATS))
    return text.upper()


def copy_request(
    request: CopyRequest, format_options: Mapping[str, str], copy_options: Mapping[str, str], *, table: str
) -> CopyRequest:
    """The request with its options.

    Args:
        request: without options, and with the format as the user has written it.
        table: for errors.

    Raises:
        CopyFormatError, CopyOptionError, InvalidOptionError: the format or an option is unknown or wrong.
        CopyUnsupportedError: the options do not go together.
    """
    by_lower = {name.lower(): name for name in _COPY_OPTIONS}
    for name in copy_options:
        if name.lower() not in by_lower:
            options = ", ".join(_COPY_OPTIONS)
            raise CopyOptionError(table=table, clause="COPY_OPTIONS", option=name, options=options)
    flags = {by_lower[name.lower()]: parse_flag(value, name, table=table) for name, value in copy_options.items()}
    own = {name.lower() for name in _OWN_OPTIONS}
    found = CopyRequest(
        source=request.source,
        format=checked_format(request.format, table=table),
        select=request.select,
        columns=request.columns,
        by_position=request.by_position,
        files=request.files,
        pattern=request.pattern,
        format_options={name: value for name, value in format_options.items() if name.lower() not in own},
        own_options={name.lower(): value for name, value in format_options.items() if name.lower() in own},
        merge_schema=flags.get("mergeSchema", False),
        force=flags.get("force", False),
        reloads_changed=flags.get("allowOverwrites", False),
    )
    _check_together(found, table)
    return found


def _check_together(request: CopyRequest, table: str) -> None:
    if request.is_positional and (request.format != "CSV" or request.format_flag("header", table=table)):
        raise CopyUnsupportedError(
            table=table,
            detail="columns are assigned by position only from CSV files without a header",
            remedy="Leave out BY POSITION and the list of columns: columns are assigned by their names.",
        )
    if request.columns is not None and request.merge_schema:
        raise InvalidOptionError(
            option="mergeSchema", value="true", table=table, detail="a list of columns names columns that exist"
        )
    for name, text in (("badRecordsPath", request.bad_records_path), ("rescuedDataColumn", request.rescued_column)):
        if text is not None and request.format not in TEXT_FORMATS:
            detail = f"it is for CSV and JSON, and the files are {request.format}"
            raise InvalidOptionError(option=name, value=text, table=table, detail=detail)
        if text is not None and request.format_option("mode") is not None:
            detail = "it decides what becomes of bad records, and so does the option mode"
            raise InvalidOptionError(option=name, value=text, table=table, detail=detail)
    for name in ("path", "paths", "basePath"):
        if (text := request.format_option(name)) is not None:
            detail = "the source is after FROM, and partition columns begin there"
            raise InvalidOptionError(option=name, value=text, table=table, detail=detail)
    if (text := request.format_option("ignoredPathSegmentRegex")) is not None:
        detail = "names that begin with _ or . are passed over, and no others: what is read is what counts as loaded"
        raise InvalidOptionError(option="ignoredPathSegmentRegex", value=text, table=table, detail=detail)
    if request.pattern == "":
        raise InvalidOptionError(option="PATTERN", value="''", table=table, detail="it is empty")
    if request.rescued_column is not None:
        _check_rescued(request, request.rescued_column, table)


def _check_rescued(request: CopyRequest, column: str, table: str) -> None:
    reason = (
        "badRecordsPath is given too"
        if request.bad_records_path is not None
        else "the statement selects expressions"
        if request.select is not None
        else "the files have JSON values over several lines"
        if request.format_flag("multiLine", table=table) and request.format == "JSON"
        else "the files must be UTF-8"
        if (request.format_option("encoding", "charset") or "UTF-8").upper() != "UTF-8" and request.format == "JSON"
        else None
    )
    if reason is not None:
        raise InvalidOptionError(option="rescuedDataColumn", value=column, table=table, detail=reason)
