"""A change feed cannot be read as asked."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class ChangeStartMissingError(DeltaAnalysisError):
    condition = "DELTA_NO_START_FOR_CDC_READ"
    sqlstate = "42601"
    what = "The changes of {table} were asked for without a start."
    todo = "Give the first version, or the time, from which on they are wanted: startingVersion or startingTimestamp."


class ChangeBoundaryNullError(DeltaAnalysisError):
    condition = "DELTA_CDC_READ_NULL_RANGE_BOUNDARY"
    sqlstate = "22004"
    pyspark_class = "IllegalArgumentException"
    what = "The changes of {table} were asked for with a {boundary} that is null."
    todo = "Give a version or a time, or leave the end out."


class ChangeBoundaryTwiceError(DeltaAnalysisError):
    condition = "DELTA_MULTIPLE_CDC_BOUNDARY"
    sqlstate = "42614"
    what = "The changes of {table} were asked for with two {boundary} points, the version {version} and the time {timestamp}."
    todo = "Give one of the two."


class ChangeStartTooLateError(DeltaAnalysisError):
    condition = "DELTA_CDC_START_VERSION_AFTER_LATEST"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = "The changes of {table} were asked for from version {start} on, and its newest version is {latest}."
    todo = "Start at a version that is there."


class InvalidChangeRangeError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CDC_RANGE"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = "The changes of {table} were asked for from {start} to {end}, which is before."
    todo = "Give an end that is not before the start."


class ChangesNotRecordedError(DeltaAnalysisError):
    condition = "DELTA_MISSING_CHANGE_DATA"
    sqlstate = "KD002"
    what = (
        "The changes of {table} from version {start} to {end} cannot be read: the change data feed is not enabled at version {version}; "
        "that takes delta.enableChangeDataFeed=true and the table feature changeDataFeed."
    )
    todo = "Ask for versions at which it is: the table's history tells since when, and changes before that were not recorded."


class IncompatibleChangesError(DeltaAnalysisError):
    condition = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
    sqlstate = "0AKDC"
    what = (
        "The changes of {table} from version {start} to {end} cannot be read by the schema of version {schema_version}: it does not "
        "fit what the table has at version {version}, {changed}."
    )
    todo = "{remedy}"


class IncompatibleChangeDataError(IncompatibleChangesError):
    """It is the schema at the start of the range that does not fit."""

    condition = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"
