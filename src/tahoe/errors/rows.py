"""Rows do not fit their table: its columns, its types or its constraints."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class SchemaMismatchError(DeltaAnalysisError):
    condition = "DELTA_SCHEMA_MISMATCH"
    sqlstate = "42KDG"
    what = "The data does not fit the schema of {table}: {detail}."
    todo = "{remedy}"


class NoColumnsError(SchemaMismatchError):
    condition = "DELTA_EMPTY_DATA"
    sqlstate = "428GU"
    what = "The data for {table} has no columns, and so there is nothing that a file could hold."
    todo = "Write data with at least one column."


class DuplicateColumnsError(DeltaAnalysisError):
    condition = "DELTA_DUPLICATE_COLUMNS_FOUND"
    sqlstate = "42711"
    what = "The schema for {table} has more than one column called {columns}; names are compared without regard to case."
    todo = "Rename columns so that each name is unique."


class UnsupportedDataTypeError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_DATA_TYPES"
    sqlstate = "0AKDC"
    what = "A Delta table cannot hold column {column} of {table}: its type is {type}."
    todo = (
        "Cast the column to a type that Delta has: string, numbers, boolean, binary, date, timestamp, timestamp_ntz, struct, array, "
        "map, variant."
    )


class ColumnNotFoundError(DeltaAnalysisError):
    condition = "DELTA_COLUMN_NOT_FOUND"
    sqlstate = "42703"
    what = "There is no column {column} in {table}; it has {columns}."
    todo = "Check the spelling; names are compared without regard to case."


class PartitionMismatchError(DeltaAnalysisError):
    condition = "DELTA_PARTITION_MISMATCH"
    sqlstate = "42KD5"
    what = "{table} is partitioned by {expected}, and the write asked for {found}."
    todo = "Leave out partitionBy, or replace the table with overwriteSchema and mode overwrite."


class NotPartitionedError(DeltaAnalysisError):
    condition = "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE"
    sqlstate = "42809"
    what = "{table} is not partitioned, and so has no partitions to show."
    todo = "Look at its columns with DESCRIBE TABLE."


class NotNullViolationError(DeltaAnalysisError):
    condition = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    sqlstate = "23502"
    what = "Column {column} of {table} is NOT NULL, and the data holds a null in it."
    todo = "Filter or fill the nulls."


class CheckConstraintViolatedError(DeltaAnalysisError):
    condition = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    sqlstate = "23001"
    what = "A row of {table} does not satisfy {constraint} ({expression}): it has {values}."
    todo = "Filter or mend such rows, or drop the constraint; a condition that is null is not satisfied."


class InvalidColumnNameError(DeltaAnalysisError):
    condition = "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"
    sqlstate = "42K05"
    what = "Column name {column} of {table} has one of the characters space , ; {{ }} ( ) newline tab =, which its files cannot hold."
    todo = "Rename the column, or create the table with delta.columnMapping.mode = name."


class ConstraintDependsError(SchemaMismatchError):
    condition = "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    sqlstate = "42K09"


class GeneratedColumnDependsError(SchemaMismatchError):
    condition = "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
    sqlstate = "42K09"


class DropClusteringColumnError(SchemaMismatchError):
    condition = "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"
    sqlstate = "0AKDC"
