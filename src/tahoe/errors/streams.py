"""A table cannot be read or written as a stream."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError
from tahoe.errors.statements import UnsupportedOperationError


class StreamOffsetFormatError(DeltaAnalysisError):
    condition = "DELTA_INVALID_SOURCE_OFFSET_FORMAT"
    sqlstate = "XXKDS"
    what = "The checkpoint of the stream has an offset that is not one of a Delta table ({table}): {offset}."
    todo = "Use the checkpoint of a query that reads this table, or begin with a new checkpoint."


class StreamOffsetVersionError(DeltaAnalysisError):
    condition = "DELTA_INVALID_SOURCE_VERSION"
    sqlstate = "XXKDS"
    what = (
        "The checkpoint of the stream that reads {table} has an offset of format {version}; formats 1 to {newest} are "
        "known."
    )
    todo = "Continue the query with the software that wrote the checkpoint, or begin with a new checkpoint."


class OtherTableInStreamError(DeltaAnalysisError):
    condition = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    sqlstate = "55019"
    what = (
        "The stream has read the table with the id {oldTableId}, but {table} is now another table, with the id "
        "{newTableId}: it was replaced, or the checkpoint belongs to another query."
    )
    todo = "Begin with a new checkpoint to read this table."


class StreamSourceDeleteError(DeltaAnalysisError):
    condition = "DELTA_SOURCE_IGNORE_DELETE"
    sqlstate = "0A000"
    pyspark_class = "UnsupportedOperationException"
    what = (
        "Version {version} of {table} deletes data that the stream has read, for example {removedFile}. Streams read "
        "appended rows only."
    )
    todo = (
        "To skip such versions, set the option ignoreDeletes or skipChangeCommits. To read the deleted rows, use "
        "readChangeFeed."
    )


class StreamSourceChangeError(DeltaAnalysisError):
    condition = "DELTA_SOURCE_TABLE_IGNORE_CHANGES"
    sqlstate = "0A000"
    pyspark_class = "UnsupportedOperationException"
    what = (
        "Version {version} of {table} changes data that the stream has read: {changeInfo}. Streams read appended rows "
        "only."
    )
    todo = "To skip such versions, set the option skipChangeCommits. To read the changes, use readChangeFeed."


class StreamCommitsMissingError(DeltaAnalysisError):
    condition = "DELTA_MISSING_FILES_UNEXPECTED_VERSION"
    sqlstate = "42K03"
    what = (
        "The stream needs version {startVersion} of {table} next, but log cleanup has deleted that commit after "
        "delta.logRetentionDuration. The next commit in the log is version {earliestVersion}."
    )
    todo = (
        "Begin with a new checkpoint. To continue without the missing versions, set the option failOnDataLoss to false."
    )


class StreamTrailingCommitError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_TRAILING_COMMIT_MISSING"
    sqlstate = "42K03"
    what = (
        "A batch of the stream was planned up to version {expectedVersion} of {table}, but the log now ends with "
        "version {seenVersion}."
    )
    todo = "Restore the deleted commits, or begin with a new checkpoint."


class StreamStartGoneError(DeltaAnalysisError):
    condition = "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"
    sqlstate = "42K03"
    what = (
        "The stream is still reading the rows that {table} had in version {version}, but that version can no longer "
        "be loaded: {reason}"
    )
    todo = (
        "Begin with a new checkpoint. Raise delta.logRetentionDuration if the stream needs longer than that to read "
        "these rows."
    )


class StreamOrderChangedError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_INITIAL_ORDER_CHANGED"
    sqlstate = "0A000"
    what = (
        "The stream has begun to read the rows that {table} had in version {version} in the order {begun}, and "
        "cannot go on in the order {asked}: it would lose rows, or read them twice."
    )
    todo = (
        "Start it with its earlier withEventTimeOrder and watermark until these rows are read, or begin with a new "
        "checkpoint."
    )


class StreamOptionsConflictError(DeltaAnalysisError):
    condition = "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"
    sqlstate = "42613"
    pyspark_class = "IllegalArgumentException"
    what = "The stream that reads {table} was given two starts: {version} and {timestamp}."
    todo = "Give startingVersion or startingTimestamp, not both."


class StreamTimeTravelError(UnsupportedOperationError):
    condition = "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"
    sqlstate = "0AKDC"
    what = "A stream does not support time travel: it reads {table} from a start version onwards."
    todo = "Start it with startingVersion or startingTimestamp."


class StreamVoidColumnError(DeltaAnalysisError):
    condition = "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE"
    sqlstate = "42P18"
    what = "The stream writes the column {column} into {table}, which is, or contains, a column of the type void."
    todo = "Cast it to the intended type, for example CAST(NULL AS STRING)."


class StreamOutputModeError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_OUTPUT_MODE"
    sqlstate = "0AKDC"
    what = "A stream cannot be written to the Delta table {table} in {mode} mode."
    todo = 'Use outputMode("append") or outputMode("complete"); or write each batch with MERGE in foreachBatch.'
