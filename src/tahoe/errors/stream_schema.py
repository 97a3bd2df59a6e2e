"""A stream cannot go on because the schema of its table changed."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class StreamSchemaChangedError(DeltaAnalysisError):
    condition = "DELTA_SCHEMA_CHANGED_WITH_VERSION"
    sqlstate = "KD007"
    what = (
        "Detected schema change in version {version} of {table}: {changed}. The schema of the stream is {readSchema}, that of the version "
        "is {dataSchema}."
    )
    todo = "{remedy}"


class StreamStartSchemaChangedError(StreamSchemaChangedError):
    """The stream was given its start."""

    condition = "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS"
    todo = "{remedy} If a new checkpoint fails here too, set startingVersion or startingTimestamp to a version after {version}."


class StreamSchemaUntrackedError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"
    sqlstate = "42KD4"
    what = (
        "The stream cannot read {table} across version {version}, because {changed}. Read schema: {readSchema}. Incompatible data schema: "
        "{incompatibleSchema}."
    )
    todo = (
        "Start the query again with the option schemaTrackingLocation, a folder below its checkpointLocation: the stream then reads rows "
        "before and after the change with the schemas that they were written with."
    )


class StreamStartUncheckedError(DeltaAnalysisError):
    condition = "DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT"
    sqlstate = "KD002"
    what = (
        "Whether columns of {table} were renamed or dropped since version {version}, where the stream starts, cannot be checked, because "
        "that version cannot be loaded: {reason}"
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
