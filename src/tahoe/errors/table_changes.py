"""The columns, clustering, constraints or properties of a table cannot be changed as requested."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class ColumnChangeError(DeltaAnalysisError):
    """Base of the errors of changing one column of a table."""

    condition = "DELTA_COLUMN_CHANGE"
    sqlstate = "0AKDC"
    what = "Column {column} of {table} cannot be changed: {detail}."
    todo = "{remedy}"


class NewColumnNotNullError(ColumnChangeError):
    condition = "DELTA_OPERATION_NOT_ALLOWED"
    what = "Column {column} cannot be added to {table}: {detail}."


class DefaultOfNewColumnError(ColumnChangeError):
    condition = "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED"
    what = "Column {column} cannot be added to {table} with a default value: {detail}."


class ParentNotStructError(ColumnChangeError):
    condition = "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"
    sqlstate = "42KD3"


class RenameColumnUnsupportedError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_RENAME_COLUMN"
    what = "Column {column} of {table} cannot be renamed: {detail}."


class DropColumnUnsupportedError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_DROP_COLUMN"
    what = "Column {column} of {table} cannot be dropped: {detail}."


class DropPartitionColumnError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"
    what = "Column {column} of {table} cannot be dropped: {detail}."


class DropLastFieldError(ColumnChangeError):
    condition = "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"
    what = "Column {column} of {table} cannot be dropped: {detail}."


class ColumnTypeChangeError(ColumnChangeError):
    condition = "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"


class StructTypeChangeError(ColumnChangeError):
    condition = "DELTA_CANNOT_UPDATE_STRUCT_FIELD"
    sqlstate = "429BQ"


class ArrayTypeChangeError(ColumnChangeError):
    condition = "DELTA_CANNOT_UPDATE_ARRAY_FIELD"
    sqlstate = "429BQ"


class MapTypeChangeError(ColumnChangeError):
    condition = "DELTA_CANNOT_UPDATE_MAP_FIELD"
    sqlstate = "429BQ"


class IdentityColumnChangeError(ColumnChangeError):
    condition = "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED"
    sqlstate = "429BQ"


class IdentityReplaceColumnsError(ColumnChangeError):
    condition = "DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED"
    sqlstate = "429BQ"


class InvalidClusteringError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CLUSTERING"
    sqlstate = "42000"
    what = "{table} cannot be clustered by {columns}: {detail}."
    todo = "{remedy}"


class ClusteredAndPartitionedError(InvalidClusteringError):
    condition = "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"
    sqlstate = "42613"


class TooManyClusteringColumnsError(InvalidClusteringError):
    condition = "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS"
    sqlstate = "54000"


class ClusteringStatisticsError(InvalidClusteringError):
    condition = "DELTA_CLUSTERING_COLUMN_MISSING_STATS"
    sqlstate = "22000"


class BloomFilterColumnError(DeltaAnalysisError):
    condition = "DELTA_INVALID_BLOOM_FILTER_COLUMN"
    sqlstate = "42000"
    what = "Column {column} of {table} cannot have Bloom filters: {detail}."
    todo = "Name a column of such a type by which queries look up single values."


class BloomFilterOptionError(DeltaAnalysisError):
    condition = "DELTA_INVALID_BLOOM_FILTER_OPTION"
    sqlstate = "42616"
    what = "Bloom filters of column {column} of {table} cannot have these options: {detail}."
    todo = "Write FOR COLUMNS ({column} OPTIONS (fpp = 0.01, numItems = 1000000)), or leave the options out."


class NoBloomFilterError(DeltaAnalysisError):
    condition = "DELTA_BLOOM_FILTER_DROP_ON_NON_EXISTING_COLUMNS"
    sqlstate = "42703"
    what = "{table} has no Bloom filters on {columns}; it has them on {known}."
    todo = "Check the spelling, or leave FOR COLUMNS out to drop all of them."


class ConstraintExistsError(DeltaAnalysisError):
    condition = "DELTA_CONSTRAINT_ALREADY_EXISTS"
    sqlstate = "42710"
    what = "{table} already has a constraint {constraint}: {expression}."
    todo = "Choose another name, or drop the existing constraint first."


class ConstraintNotFoundError(DeltaAnalysisError):
    condition = "DELTA_CONSTRAINT_DOES_NOT_EXIST"
    sqlstate = "42704"
    what = "{table} has no constraint {constraint}; it has {constraints}."
    todo = "Check the spelling, or use DROP CONSTRAINT IF EXISTS."


class InvalidKeyError(DeltaAnalysisError):
    condition = "DELTA_INVALID_KEY"
    sqlstate = "42621"
    what = "{key} cannot be a key of {table}: {detail}."
    todo = "{remedy}"


class ConstraintNotBooleanError(DeltaAnalysisError):
    condition = "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"
    sqlstate = "42621"
    what = "{expression} cannot be the constraint {constraint} of {table}: it is {type}, not boolean."
    todo = "Use a boolean expression."


class InvalidPropertyError(DeltaAnalysisError):
    condition = "DELTA_INVALID_TABLE_PROPERTY"
    sqlstate = "42616"
    what = "The table property {property} of {table} cannot be {value}: {detail}."
    todo = "Give a valid value, or leave the property out."


class UnknownPropertyError(InvalidPropertyError):
    """A property with a prefix of Delta or of tahoe has a name that they do not define."""

    condition = "DELTA_UNKNOWN_CONFIGURATION"
    sqlstate = "F0000"
    what = "The table property {property} of {table} was not set: {owner} has no property of this name."
    todo = "Check the spelling, or leave out the prefix: a property of yours may have any other name."


class InternalPropertyError(InvalidPropertyError):
    condition = "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"
    sqlstate = "42939"
    what = "The table property {property} of {table} was not changed: only writers set it, not users."
    todo = "Leave the property out."


class StatisticsColumnError(InvalidPropertyError):
    """`delta.dataSkippingStatsColumns` lists a column that cannot be listed."""

    todo = "List other columns, each once: the reference refuses any change of a table with such a list."


class StatisticsColumnNotFoundError(StatisticsColumnError):
    condition = "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"
    sqlstate = "42703"


class PartitionStatisticsColumnError(StatisticsColumnError):
    condition = "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN"
    sqlstate = "0AKDC"


class StatisticsColumnTypeError(StatisticsColumnError):
    condition = "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE"
    sqlstate = "0AKDC"


class DuplicateStatisticsColumnsError(StatisticsColumnError):
    condition = "DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS"
    sqlstate = "42701"


class PropertyNotSetError(InvalidPropertyError):
    condition = "DELTA_UNSET_NON_EXISTENT_PROPERTY"
    sqlstate = "42616"
    what = "The property {property} cannot be unset: it is not set on the table {table}."
    todo = "Check the spelling, or allow it: UNSET TBLPROPERTIES IF EXISTS in SQL, if_exists=True in Python."


class UnknownFeaturePropertyError(InvalidPropertyError):
    condition = "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"
    sqlstate = "56038"
    what = "{property} enables a feature of {table} that tahoe {tahoe_version} does not support."
    todo = "Supported features are {known}."
