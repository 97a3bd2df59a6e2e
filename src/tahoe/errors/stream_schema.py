"""A stream cannot go on because the schema of its table changed."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class StreamSchemaChangedError(DeltaAnalysisError):
    condition = "DELTA_SCHEMA_CHANGED_WITH_VERSION"
    sqlstate = "KD007"
    what = (
        "Detected schema change in version {version} of {table}: {changed}. The schema of the stream is "
        "{readSchema}, that of the version is {dataSchema}."
    )
    todo = "{remedy}"


class StreamStartSchemaChangedError(StreamSchemaChangedError):
    """The stream was given its start."""

    condition = "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS"
    todo = (
        "{remedy} If a new checkpoint fails here too, set startingVersion or startingTimestamp to a version after "
        "{version}."
    )


class StreamSchemaUntrackedError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"
    sqlstate = "42KD4"
    what = (
        "The stream cannot read {table} across version {version}, because {changed}. Read schema: {readSchema}. "
        "Incompatible data schema: {incompatibleSchema}."
    )
    todo = (
        "Start the query again with the option schemaTrackingLocation, a folder below its checkpointLocation: the "
        "stream then reads rows before and after the change with the schemas that they were written with."
    )


class StreamStartUncheckedError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT"
    sqlstate = "KD002"
    what = (
        "The stream starts at version {version} of {table}, which cannot be loaded, so tahoe cannot check whether "
        "columns were renamed or dropped since then: {reason}"
    )
    todo = "Begin with a new checkpoint and a later version; or take the risk and set {config} to true."


class StreamSchemaMismatchError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART"
    sqlstate = "KD007"
    what = (
        "The DataFrame of the query was created when {table} had another schema. Query schema: {querySchema}. "
        "Current table schema: {tableSchema}."
    )
    todo = "Create the DataFrame again with readStream, and start the query with it and the same checkpoint."


class SchemaLocationOutsideError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT"
    sqlstate = "22000"
    what = "Schema location '{schemaTrackingLocation}' must be placed under checkpoint location '{checkpointLocation}'."
    todo = "Set schemaTrackingLocation to the query's checkpointLocation, or to a folder below it."


class SchemaLocationConflictError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT"
    sqlstate = "22000"
    what = (
        "Detected conflicting schema location '{loc}' while streaming from table or table located at '{table}': "
        "{detail}."
    )
    todo = (
        "Give each stream a schemaTrackingLocation of its own. Two streams from the same table in one query also "
        "need a different streamingSourceTrackingId each. If no other stream uses the location, start the query "
        "again."
    )


class StreamSchemaEvolvedError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_METADATA_EVOLUTION"
    sqlstate = "22000"
    what = (
        "The schema, table configuration or protocol of {table} changed in version {version}. The rows before it "
        "are processed, and the stream's schema log is updated. Updated schema: {schema}. Updated table "
        "configurations: {config}. Updated table protocol: {protocol}."
    )
    todo = (
        "Create the DataFrame again with readStream, and start the query with it and the same checkpoint: it goes on "
        "with the new schema."
    )


class SchemaChangeNotAcknowledgedError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
    sqlstate = "KD002"
    what = (
        "The schema of {table}, from which the stream reads, has changed between version "
        "{previousSchemaChangeVersion} and {currentSchemaChangeVersion} by more than new columns ({opType}): "
        "{columnChangeDetails}."
    )
    todo = (
        "Change the sink if it needs it, and then acknowledge the change. For this stream and this change, give its "
        "reader {unblockChangeOptions}, or run {unblockChangeConfs}. For this stream, give its reader "
        "{unblockStreamOptions}, or run {unblockStreamConfs}. For all streams, run {unblockAllConfs}."
    )


class SchemaLogUnreadableError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED"
    sqlstate = "22000"
    what = "Incomplete log file in the Delta streaming source schema log at '{location}': {detail}."
    todo = "Restore the file, or set schemaTrackingLocation to another folder."


class SchemaLogSchemaError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_SCHEMA_LOG_PARSE_SCHEMA_FAILED"
    sqlstate = "22000"
    what = "The schema log of the stream with the source {location} has an invalid schema or protocol: {reason}"
    todo = "Restore the log, or set schemaTrackingLocation to another folder."


class SchemaLogOtherTableError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID"
    sqlstate = "22000"
    what = (
        "The schema log at '{location}' is of the table with the id {persistedId}, but the id of {table} is {tableId}."
    )
    todo = "Set schemaTrackingLocation to another folder."


class SchemaLogStartError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA"
    sqlstate = "22000"
    what = (
        "The schema of the stream cannot be tracked from here on: a batch that is already planned reads {table} "
        "from version {a} to {b}, and no single schema fits all these versions: {reason}."
    )
    todo = "Finish the batch without schemaTrackingLocation, or begin with a new checkpoint."
