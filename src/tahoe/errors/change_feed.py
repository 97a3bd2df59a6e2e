"""The change data feed cannot be read as requested."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class ChangeStartMissingError(DeltaAnalysisError):
    condition = "DELTA_NO_START_FOR_CDC_READ"
    sqlstate = "42601"
    what = "The change data feed of {table} cannot be read without a start."
    todo = (
        "Give the first version or timestamp to read: startingVersion or startingTimestamp in Spark, start_version "
        "or start_timestamp in tahoe.Table.changes."
    )


class ChangeBoundaryNullError(DeltaAnalysisError):
    condition = "DELTA_CDC_READ_NULL_RANGE_BOUNDARY"
    sqlstate = "22004"
    pyspark_class = "IllegalArgumentException"
    what = "The {boundary} for reading the change data feed of {table} is null."
    todo = "Give a version or a timestamp; the end may be left out."


class ChangeBoundaryTwiceError(DeltaAnalysisError):
    condition = "DELTA_MULTIPLE_CDC_BOUNDARY"
    sqlstate = "42614"
    what = (
        "The change data feed of {table} was requested with two {boundary} points: version {version} and timestamp "
        "{timestamp}."
    )
    todo = "Give only one of them."


class ChangeStartTooLateError(DeltaAnalysisError):
    condition = "DELTA_CDC_START_VERSION_AFTER_LATEST"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = "The change data feed of {table} was requested from version {start}, but the latest version is {latest}."
    todo = "Start at an existing version."


class InvalidChangeRangeError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CDC_RANGE"
    sqlstate = "22003"
    pyspark_class = "IllegalArgumentException"
    what = "The change data feed of {table} was requested from {start} to {end}, but the end is before the start."
    todo = "Give an end at or after the start."


class ChangesNotRecordedError(DeltaAnalysisError):
    condition = "DELTA_MISSING_CHANGE_DATA"
    sqlstate = "KD002"
    what = (
        "The changes of {table} from version {start} to {end} cannot be read: the change data feed is not enabled "
        "at version {version}; it requires delta.enableChangeDataFeed=true and the table feature changeDataFeed."
    )
    todo = (
        "Request versions at which it is enabled; see the table's history. To record changes from now on: "
        "ALTER TABLE delta.`{table}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true) in SQL, or "
        "set_properties in a transaction without Spark. Earlier changes were not recorded; in a batch the option "
        "computeChanges=true computes them from the data files, as far as these tell them."
    )


class ChangesNotComputedError(DeltaAnalysisError):
    condition = "DELTA_CHANGE_DATA_NOT_COMPUTED"
    sqlstate = "KD002"
    what = (
        "The changes of {table} from version {start} to {end} cannot be computed from its data files: "
        "{detail}, at version {version}."
    )
    todo = (
        "Request versions behind it. Rows keep ids, by which changes are told from copies, with ALTER TABLE "
        "delta.`{table}` SET TBLPROPERTIES (delta.enableRowTracking = true)."
    )


class IncompatibleChangesError(DeltaAnalysisError):
    condition = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
    sqlstate = "0AKDC"
    what = (
        "The changes of {table} from version {start} to {end} cannot be read with the schema of version "
        "{schema_version}: version {version} is incompatible because of {changed}."
    )
    todo = "{remedy}"


class IncompatibleChangeDataError(IncompatibleChangesError):
    """The schema at the start of the range is incompatible."""

    condition = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"
