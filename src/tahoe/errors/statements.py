"""A statement, a method call or one of its arguments is wrong, or not supported."""

from __future__ import annotations

from tahoe.errors.root import DeltaAnalysisError


class InvalidArgumentError(DeltaAnalysisError):
    """A method was given a value of a kind that it does not take."""

    condition = "DELTA_INVALID_ARGUMENT"
    sqlstate = "22023"
    pyspark_class = "IllegalArgumentException"
    what = "The argument {argument} cannot be {found} for {table}: it takes {expected}."
    todo = "{remedy}"


class InvalidOptionError(DeltaAnalysisError):
    condition = "DELTA_ILLEGAL_OPTION"
    sqlstate = "42616"
    pyspark_class = "IllegalArgumentException"
    what = "The option {option} cannot be {value} for {table}: {detail}."
    todo = "Give a value that the option takes, or leave it out."


class InvalidPredicateError(DeltaAnalysisError):
    condition = "DELTA_INVALID_PREDICATE"
    sqlstate = "42601"
    what = "The predicate {predicate} cannot be used on {table}: {detail}."
    todo = "Write it as SQL over the table's columns, with comparisons, IN, LIKE 'prefix%', IS NULL, AND, OR, NOT."


class ReplaceWhereMismatchError(DeltaAnalysisError):
    condition = "DELTA_REPLACE_WHERE_MISMATCH"
    sqlstate = "44000"
    what = "Data written to {table} with replaceWhere {predicate} has rows that the predicate does not hold for: {detail}."
    todo = "Filter the data by the predicate, or widen the predicate."


class ConflictingAssignmentsError(DeltaAnalysisError):
    condition = "DELTA_CONFLICT_SET_COLUMN"
    sqlstate = "42701"
    what = "{first} and {second} of {table} both get a value, and they are one column, or a struct and a field of it."
    todo = "Assign once to each: to the struct as a whole, or to its fields."


class InvalidMergeError(DeltaAnalysisError):
    condition = "DELTA_MERGE_INVALID_CLAUSES"
    sqlstate = "42601"
    what = "This MERGE into {table} cannot be run: {detail}."
    todo = "Nothing was read. Change the clauses."


class MultipleSourceRowsError(DeltaAnalysisError):
    condition = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    sqlstate = "21506"
    pyspark_class = "UnsupportedOperationException"
    what = "Several rows of the source match one row of {table} by {condition} and would change it, for example that with {keys}."
    todo = "Leave one row for each key in the source, with dropDuplicates or an aggregate, or a narrower condition. Nothing was changed."


class UnsupportedOperationError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_OPERATION"
    sqlstate = "0A000"
    what = "{operation} is not possible on the Delta table {table}: {detail}."
    todo = "{remedy}"


# What Arrow leaves to Spark's engine is left to it over Spark Connect as well, where rows pass through Arrow.
WITH_SPARKS_ENGINE = (
    'Do it with format("delta") in a Spark session with a JVM of its own, SparkSession.builder.master(...), after tahoe.enable(spark).'
)


class OperationNotAllowedError(UnsupportedOperationError):
    condition = "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
    sqlstate = "0AKDC"


class OperationNotYetSupportedError(DeltaAnalysisError):
    """What was asked for is understood, and a later version of tahoe will do it."""

    condition = "DELTA_OPERATION_NOT_YET_SUPPORTED"
    sqlstate = "0A000"
    what = "tahoe {tahoe_version} cannot do {operation} yet, and has not touched {table}."
    todo = "Leave it out, or do it with another writer: the table stays one that tahoe reads and writes."


class StreamNotYetSupportedError(OperationNotYetSupportedError):
    condition = "DELTA_STREAM_NOT_YET_SUPPORTED"
    what = "tahoe {tahoe_version} cannot {operation} {table} as a stream yet, and has not touched it."
    todo = "{remedy}"


class StatementSyntaxError(DeltaAnalysisError):
    condition = "PARSE_SYNTAX_ERROR"
    sqlstate = "42601"
    pyspark_class = "ParseException"
    what = "Syntax error at or near {near}: expected {expected}."
    todo = "Mend it at line {line}, pos {position}.\n\n== SQL ==\n{excerpt}\n"

    @classmethod
    def at(cls, text: str, start: int, near: str, expected: str) -> StatementSyntaxError:
        """The error at a place in a text; `near` is what stands there, and nothing at its end."""
        before = text[:start]
        line, position = before.count("\n") + 1, start - (before.rfind("\n") + 1)
        lines = text.split("\n")
        caret = "-" * position + "^^^"
        excerpt = "\n".join([*lines[:line], caret, *lines[line:]])
        return cls(near=f"'{near}'" if near else "end of input", expected=expected, line=line, position=position, excerpt=excerpt)


class AppendOnlyTableError(DeltaAnalysisError):
    condition = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    sqlstate = "42809"
    pyspark_class = "UnsupportedOperationException"
    what = "{table} takes appends only (delta.appendOnly = true), and this write would remove or change rows."
    todo = "Use mode append, or set the table property delta.appendOnly to false first."
