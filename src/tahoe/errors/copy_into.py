"""COPY INTO cannot load what it was asked for."""

from __future__ import annotations

from typing import Any

from tahoe.errors.root import DeltaAnalysisError, DeltaError


class CopiedFilesLostError(DeltaError):
    condition = "DELTA_COPY_INTO_RECORD_LOST"
    sqlstate = "55000"
    what = (
        "{table}: {file} cannot be read: {detail}. It is a part of the record of the files that COPY INTO has loaded, "
        "so it is unknown which files are new. Nothing was loaded."
    )
    todo = (
        "Bring the file back from a backup. Without one, empty the record and then load by FILES or PATTERN only what "
        "is new: Table.transaction().set_domain('io.tahoe.copyInto', None)."
    )


class CopySourceMissingError(DeltaAnalysisError):
    condition = "DELTA_COPY_INTO_SOURCE_NOT_FOUND"
    sqlstate = "42K03"
    what = "COPY INTO {table}: there is no {source}."
    todo = "Check the spelling of the path. A folder without new files is not an error."


class CopySourceGlobError(DeltaAnalysisError):
    condition = "DELTA_COPY_INTO_SOURCE_IS_PATTERN"
    sqlstate = "42K05"
    what = "COPY INTO {table}: the path {source} does not exist, and has characters of a pattern."
    todo = "Give the folder as the path, and the rest as PATTERN (pattern= in Python)."


class CopyFormatError(DeltaAnalysisError):
    condition = "DELTA_COPY_INTO_FORMAT_UNKNOWN"
    sqlstate = "42601"
    what = "COPY INTO {table}: the format {format} cannot be loaded; those that can are {formats}."
    todo = "Give one of them as FILEFORMAT (format= in Python)."

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._suggest(str(parameters["format"]).upper(), str(parameters["formats"]).split(", "))


class CopyOptionError(DeltaAnalysisError):
    condition = "DELTA_COPY_INTO_OPTION_UNKNOWN"
    sqlstate = "42616"
    what = "COPY INTO {table}: there is no option {option} of {clause}; there are {options}."
    todo = "Options of the reader, such as header, are FORMAT_OPTIONS (format_options= in Python)."

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._suggest(str(parameters["option"]), str(parameters["options"]).split(", "))


class CopyColumnsError(DeltaAnalysisError):
    condition = "DELTA_COPY_INTO_COLUMNS"
    sqlstate = "42802"
    what = "COPY INTO {table}: {detail}."
    todo = "{remedy}"


class CopyUnsupportedError(DeltaAnalysisError):
    condition = "DELTA_COPY_INTO_UNSUPPORTED"
    sqlstate = "0A000"
    what = "COPY INTO {table}: {detail}."
    todo = "{remedy}"


class CopyFileError(DeltaAnalysisError):
    condition = "DELTA_COPY_INTO_FILE_UNREADABLE"
    sqlstate = "22000"
    what = "COPY INTO {table}: the file {file} cannot be loaded, so nothing was: {detail}"
    todo = (
        "Fix the file, or leave it out by FILES or PATTERN. Rows of CSV and JSON that do not fit are set aside by the "
        "format option badRecordsPath, and kept by rescuedDataColumn."
    )
