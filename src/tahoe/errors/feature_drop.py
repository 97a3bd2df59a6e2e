"""A table feature cannot be dropped."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class FeatureDropError(DeltaAnalysisError):
    """Base of the errors of DROP FEATURE."""

    condition = "DELTA_FEATURE_DROP_ERROR"
    sqlstate = "0AKDE"
    what = "The feature {feature} cannot be dropped from {table}: {detail}."
    todo = "{remedy}"


class UnknownFeatureError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
    sqlstate = "0AKDC"


class PropertyNoFeatureError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"
    sqlstate = "42000"


class FeatureNotPresentError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"
    sqlstate = "55000"


class FeatureNotDroppableError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"
    sqlstate = "0AKDC"


class DependentFeatureError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"
    sqlstate = "55000"


class FeatureInUseError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_FEATURE_IN_USE"


class FeatureInHistoryError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
    sqlstate = "22KD0"


class FeatureDropWaitsError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"
    sqlstate = "22KD0"


class NoHistoryToTruncateError(FeatureDropError):
    condition = "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"
    sqlstate = "42000"


class CheckpointProtectionKeptError(FeatureDropError):
    condition = "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"
    sqlstate = "55000"
