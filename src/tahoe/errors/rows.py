"""Rows do not match the table's columns, types or constraints."""

from __future__ import annotations

from typing import Any

from tahoe.errors.root import DeltaAnalysisError


class SchemaMismatchError(DeltaAnalysisError):
    condition = "DELTA_METADATA_MISMATCH"
    sqlstate = "42KDG"
    what = "Schema mismatch in {table}: {detail}."
    todo = "{remedy}"


class FieldsNotMergedError(SchemaMismatchError):
    condition = "DELTA_FAILED_TO_MERGE_FIELDS"
    sqlstate = "22005"


class ConstraintTypeMismatchError(SchemaMismatchError):
    condition = "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH"
    sqlstate = "42K09"


class GeneratedColumnTypeMismatchError(SchemaMismatchError):
    condition = "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH"
    sqlstate = "42K09"


class ColumnCountMismatchError(SchemaMismatchError):
    condition = "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    sqlstate = "42802"


class StructMismatchError(SchemaMismatchError):
    condition = "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
    sqlstate = "42846"


class MissingNotNullColumnError(SchemaMismatchError):
    condition = "DELTA_MISSING_NOT_NULL_COLUMN_VALUE"
    sqlstate = "23502"


class MissingInsertColumnError(MissingNotNullColumnError):
    condition = "DELTA_INSERT_COLUMN_MISMATCH"
    sqlstate = "42802"


class NoCastError(SchemaMismatchError):
    condition = "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"
    sqlstate = "42K09"


class NoCastButFunctionError(SchemaMismatchError):
    condition = "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION"
    sqlstate = "42K09"


class NoCastButSettingError(SchemaMismatchError):
    condition = "DATATYPE_MISMATCH.CAST_WITH_CONF_SUGGESTION"
    sqlstate = "42K09"


class NoSafeCastError(SchemaMismatchError):
    condition = "CANNOT_UP_CAST_DATATYPE"
    sqlstate = "42846"


class NoColumnsError(SchemaMismatchError):
    condition = "DELTA_EMPTY_DATA"
    sqlstate = "428GU"
    what = "The data for {table} has no columns, so there is nothing to write."
    todo = "Write data with at least one column."


class DuplicateColumnsError(DeltaAnalysisError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND"
    sqlstate = "42711"
    what = "The schema for {table} has duplicate columns: {columns}; names are compared case-insensitively."
    todo = "Rename the columns so that each name is unique."


class DuplicateDataColumnsError(DuplicateColumnsError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND.DATA"


class DuplicateExistingColumnsError(DuplicateColumnsError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND.EXISTING_SCHEMA"


class DuplicateNewColumnsError(DuplicateColumnsError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND.ADDING_COLUMNS"


class DuplicateReplacedColumnsError(DuplicateColumnsError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND.REPLACING_COLUMNS"


class DuplicateMetadataColumnsError(DuplicateColumnsError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND.METADATA_UPDATE"


class DuplicatePartitionColumnsError(DuplicateColumnsError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND.PARTITION_COLUMNS"
    what = "The partitioning of {table} has duplicate columns: {columns}; names are compared case-insensitively."
    todo = "Name each partition column once."


class UnsupportedDataTypeError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_DATA_TYPES"
    sqlstate = "0AKDC"
    what = "Delta does not support the type of column {column} of {table}: {type}."
    todo = (
        "Cast the column to a supported type: string, numeric types, boolean, binary, date, timestamp, "
        "timestamp_ntz, struct, array, map, variant, geometry, geography."
    )


class MixedReferenceSystemsError(UnsupportedDataTypeError):
    condition = "DELTA_GEOSPATIAL_SRID_NOT_SUPPORTED"
    what = "Column {column} of {table} is {type}: its values may have different coordinate reference systems."
    todo = "Give the column one of them, as in GEOMETRY(4326)."


class GeospatialUnsupportedError(DeltaAnalysisError):
    condition = "DELTA_OPERATION_NOT_SUPPORTED_FOR_DATATYPES"
    sqlstate = "0AKDC"
    what = "{operation} is not supported for columns of type geometry or geography; {table} has {columns}."
    todo = "Leave these columns out."


class ColumnNotFoundError(DeltaAnalysisError):
    condition = "DELTA_COLUMN_NOT_FOUND"
    sqlstate = "42703"
    what = "There is no column {column} in {table}; it has {columns}."
    todo = "Check the spelling; names are compared case-insensitively. A text in SQL is in single quotes: 'text'."

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._suggest(str(parameters["column"]), str(parameters["columns"]).split(", "))


class UnresolvedMergeColumnError(ColumnNotFoundError):
    condition = "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    sqlstate = "42601"


class PartitionMismatchError(SchemaMismatchError):
    what = "{table} is partitioned by {expected}, but the write specifies {found}."
    todo = (
        "Leave out the partition columns, or replace the table: mode overwrite with overwriteSchema in Spark, "
        "overwrite(..., overwrite_schema=True) without Spark."
    )


class NotPartitionedError(DeltaAnalysisError):
    condition = "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE"
    sqlstate = "42809"
    what = "{table} is not partitioned, so it has no partitions to show."
    todo = "Use DESCRIBE TABLE to see its columns."


class NotNullViolationError(DeltaAnalysisError):
    condition = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    sqlstate = "23502"
    what = "Column {column} of {table} is NOT NULL, but the data contains a null value for it."
    todo = "Filter or fill the nulls."


class CheckConstraintViolatedError(DeltaAnalysisError):
    condition = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    sqlstate = "23001"
    what = "A row of {table} violates {constraint} ({expression}): it has {values}."
    todo = "Filter or fix such rows, or drop the constraint. A condition that evaluates to null is violated too."


class NewConstraintViolatedError(CheckConstraintViolatedError):
    """Rows that the table has already violate a constraint that is to be added."""

    condition = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    sqlstate = "23512"
    what = "{constraint} ({expression}) cannot be added to {table}: a row violates it, with {values}."
    todo = (
        "Delete or update such rows first, or change the expression. A condition that evaluates to null is violated "
        "too."
    )


class InvalidColumnNameError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"
    sqlstate = "42K05"
    what = (
        "Column name {column} of {table} contains one of the characters space , ; {{ }} ( ) newline tab =, which "
        "Parquet does not allow."
    )
    todo = "Rename the column, or create the table with delta.columnMapping.mode = name."


_CHANGE_REFUSED = "The schema of {table} cannot be changed: {detail}."


class ConstraintDependsError(SchemaMismatchError):
    condition = "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    sqlstate = "42K09"
    what = _CHANGE_REFUSED


class GeneratedColumnDependsError(SchemaMismatchError):
    condition = "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
    sqlstate = "42K09"
    what = _CHANGE_REFUSED


class DropClusteringColumnError(SchemaMismatchError):
    condition = "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"
    sqlstate = "0AKDC"
    what = _CHANGE_REFUSED
