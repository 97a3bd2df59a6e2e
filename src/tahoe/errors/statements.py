"""A statement, a method call or one of its arguments is wrong, or not supported."""

from __future__ import annotations

from typing import Any

from tahoe.errors.root import DeltaAnalysisError, DeltaError


class InvalidArgumentError(DeltaAnalysisError):
    """A method was called with an argument that it does not accept."""

    condition = "DELTA_INVALID_ARGUMENT"
    sqlstate = "22023"
    pyspark_class = "IllegalArgumentException"
    what = "{table}: the argument {argument} must be {expected}, not {found}."
    todo = "{remedy}"


def _abbreviates(name: str, longer: str) -> bool:
    """Whether each word of a name begins a word of a longer one: start of start_version, partition of partition_by and
    of partitions.
    """
    return all(any(word.startswith(begun) for word in longer.split("_")) for begun in name.lower().split("_"))


class UnknownArgumentError(DeltaAnalysisError, TypeError):
    """A method was called with a keyword argument that it does not have. As in Python, it is a `TypeError`."""

    condition = "DELTA_UNKNOWN_ARGUMENT"
    sqlstate = "22023"
    pyspark_class = "IllegalArgumentException"
    what = "{table}: {method}() has no argument {argument}; it has {arguments}."
    todo = "Check the spelling."

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        argument, arguments = str(parameters["argument"]), str(parameters["arguments"]).split(", ")
        longer = [name for name in arguments if _abbreviates(argument, name)]
        if longer:
            self._begin(f"Did you mean {' or '.join(longer)}?")
        else:
            self._suggest(argument, arguments)


class SurplusArgumentError(DeltaAnalysisError, TypeError):
    """A method was called with more arguments by position than it takes. As in Python, it is a `TypeError`."""

    condition = "DELTA_SURPLUS_ARGUMENT"
    sqlstate = "22023"
    pyspark_class = "IllegalArgumentException"
    what = "{table}: {method}() takes {taken} by position; {value} is one too many."
    todo = "{remedy}"


class MissingArgumentError(DeltaAnalysisError, TypeError):
    """A method was called without an argument that has no default. As in Python, it is a `TypeError`."""

    condition = "DELTA_MISSING_ARGUMENT"
    sqlstate = "22023"
    pyspark_class = "IllegalArgumentException"
    what = "{table}: {method}() needs {missing}."
    todo = "Write {call}."


class UnknownNameError(DeltaAnalysisError, AttributeError):
    """An object or the module has no such name, but another library for Delta tables has. As in Python, it is an
    `AttributeError`.
    """

    condition = "DELTA_UNKNOWN_NAME"
    sqlstate = "42000"
    what = "{owner} has no {name}."
    todo = "In tahoe: {instead}."


class UnknownImportError(DeltaAnalysisError, ImportError):
    """A name that only another library has was imported from tahoe. As in Python, it is an `ImportError`."""

    condition = "DELTA_UNKNOWN_IMPORT"
    sqlstate = "42000"
    what = "{name} cannot be imported from tahoe."
    todo = "In tahoe: {instead}."


class CalledOnClassError(DeltaAnalysisError, TypeError):
    """A method of an object was called on its class."""

    condition = "DELTA_CALLED_ON_CLASS"
    sqlstate = "22023"
    pyspark_class = "IllegalArgumentException"
    what = "{owner}.{method}() was called on the class {owner}, but it is a method of an object."
    todo = "Write {instead}."


class InvalidOptionError(DeltaAnalysisError):
    condition = "DELTA_ILLEGAL_OPTION"
    sqlstate = "42616"
    pyspark_class = "IllegalArgumentException"
    what = "The option {option} cannot be {value} for {table}: {detail}."
    todo = "Give a valid value, or remove the option."


class InvalidPredicateError(DeltaAnalysisError):
    condition = "DELTA_INVALID_PREDICATE"
    sqlstate = "42601"
    what = "The expression {predicate} cannot be used on {table}: {detail}."
    todo = (
        "Write it in SQL over the table's columns; docs/reference/filters.md lists the operators and functions that "
        "work without Spark."
    )


class NeedsSparkError(InvalidPredicateError):
    """An expression that may be right, but that only Spark computes."""

    condition = "DELTA_UNSUPPORTED_EXPRESSION"
    sqlstate = "0A000"
    todo = (
        "Run the statement in Spark, or write another expression; docs/reference/filters.md lists the operators and "
        "functions that work without Spark."
    )


class ExpressionFailedError(DeltaAnalysisError):
    """An expression has no value for a row, as in Spark's ANSI mode."""

    condition = "DELTA_EXPRESSION_FAILED"
    sqlstate = "22000"
    what = "{expression} cannot be computed for every row of {table}: {detail}."
    todo = "Leave out such rows with a condition, or use CASE WHEN. Nothing was changed."


class DivisionByZeroError(ExpressionFailedError):
    condition = "DIVIDE_BY_ZERO"
    sqlstate = "22012"
    pyspark_class = "ArithmeticException"


class RemainderByZeroError(ExpressionFailedError):
    condition = "REMAINDER_BY_ZERO"
    sqlstate = "22012"
    pyspark_class = "ArithmeticException"


class ResultOverflowError(ExpressionFailedError):
    condition = "ARITHMETIC_OVERFLOW"
    sqlstate = "22003"
    pyspark_class = "ArithmeticException"


class SmallResultOverflowError(ExpressionFailedError):
    """As `ResultOverflowError`, of TINYINT and SMALLINT."""

    condition = "BINARY_ARITHMETIC_OVERFLOW"
    sqlstate = "22003"
    pyspark_class = "ArithmeticException"


class DecimalResultOverflowError(ExpressionFailedError):
    condition = "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
    sqlstate = "22003"
    pyspark_class = "ArithmeticException"


class CastResultOverflowError(ExpressionFailedError):
    condition = "CAST_OVERFLOW"
    sqlstate = "22003"
    pyspark_class = "ArithmeticException"


class UncastTextError(ExpressionFailedError):
    condition = "CAST_INVALID_INPUT"
    sqlstate = "22018"
    pyspark_class = "SparkRuntimeException"


class ArrowFailedError(DeltaError):
    """Arrow refuses what a method asks of it: a limit of Arrow's, or data that tahoe did not foresee. Its own error is
    the cause.
    """

    condition = "DELTA_ARROW_FAILED"
    sqlstate = "XXKDS"
    what = "{method}() of {table} failed, because Arrow refused the data: {detail}."
    todo = (
        "Nothing was committed. Use smaller pieces or other types if the message names a limit or a type; otherwise "
        "please report it."
    )


class QueryFailedError(DeltaAnalysisError):
    """DuckDB refused or could not finish a query of `tahoe sql`."""

    condition = "DELTA_QUERY_FAILED"
    sqlstate = "42000"
    what = "DuckDB does not run the query (Delta tables found in it: {table}): {detail}\n"
    todo = (
        "Correct it. A table in it is a path with a slash or a url, in quotes ('./t'), or a name that --table "
        "NAME=PATH gives it."
    )


class ReplaceWhereMismatchError(DeltaAnalysisError):
    condition = "DELTA_REPLACE_WHERE_MISMATCH"
    sqlstate = "44000"
    what = "Data written to {table} with replaceWhere {predicate} has rows that do not match the predicate: {detail}."
    todo = "Filter the data by the predicate, or change the predicate."


class ConflictingAssignmentsError(DeltaAnalysisError):
    condition = "DELTA_CONFLICT_SET_COLUMN"
    sqlstate = "42701"
    what = (
        "{first} and {second} of {table} are both assigned, but they are the same column, or a struct and one of its "
        "fields."
    )
    todo = "Assign each column once: either the struct or its fields."


class InvalidMergeError(DeltaAnalysisError):
    condition = "DELTA_MERGE_INVALID_CLAUSES"
    sqlstate = "42601"
    what = "This MERGE into {table} cannot be run: {detail}."
    todo = "Change the clauses. Nothing was read or written."


class MissingWhenError(InvalidMergeError):
    condition = "DELTA_MERGE_MISSING_WHEN"
    what = "This MERGE into {table} has no WHEN clause, so it would do nothing."
    todo = "Add one: WHEN MATCHED THEN UPDATE SET *, or WHEN NOT MATCHED THEN INSERT *. Nothing was read or written."


class MultipleSourceRowsError(DeltaAnalysisError):
    condition = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    sqlstate = "21506"
    pyspark_class = "UnsupportedOperationException"
    what = "Several source rows match the same row of {table} by {condition} and would change it, for example: {keys}."
    todo = (
        "Keep one source row per key, with dropDuplicates or an aggregate, or use a narrower condition. Nothing was "
        "changed."
    )


class UnsupportedOperationError(DeltaAnalysisError):
    condition = "DELTA_UNSUPPORTED_OPERATION"
    sqlstate = "0A000"
    what = "{operation} is not supported on {table}: {detail}."
    todo = "{remedy}"


class IncompatibleFormatError(DeltaAnalysisError):
    condition = "DELTA_INVALID_FORMAT"
    sqlstate = "22000"
    what = (
        "{path} cannot be read as Parquet, because {table} is a Delta table: its files also have rows that were "
        "deleted or replaced, and its folder has files of other kinds."
    )
    todo = (
        'Read the table with format("delta"), or as delta.`path` in SQL. To read the rows of all files '
        "nevertheless, set "
        "{setting} = false. A single file that is named can always be read."
    )


# Writes without Spark and over Spark Connect both pass rows through Arrow, so both lack the same operations.
WITH_SPARKS_ENGINE = (
    'Use format("delta") in a Spark session with its own JVM, SparkSession.builder.master(...), after '
    "tahoe.enable(spark)."
)


class OperationNotAllowedError(UnsupportedOperationError):
    condition = "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
    sqlstate = "0AKDC"


class OperationNotYetSupportedError(DeltaAnalysisError):
    """The operation is valid and will be supported by a later version of tahoe."""

    condition = "DELTA_OPERATION_NOT_YET_SUPPORTED"
    sqlstate = "0A000"
    what = "tahoe {tahoe_version} does not support {operation} yet; {table} was not changed."
    todo = "Leave it out, or use another writer: tahoe can still read and write the table afterwards."


class StatementSyntaxError(DeltaAnalysisError):
    condition = "PARSE_SYNTAX_ERROR"
    sqlstate = "42601"
    pyspark_class = "ParseException"
    what = "Syntax error at or near {near}: expected {expected}."
    todo = "Fix it at line {line}, pos {position}.\n\n== SQL ==\n{excerpt}\n"

    @classmethod
    def at(cls, text: str, start: int, near: str, expected: str) -> StatementSyntaxError:
        """The error at an offset in the text. `near` is the text found there, empty at the end of input."""
        before = text[:start]
        line, position = before.count("\n") + 1, start - (before.rfind("\n") + 1)
        lines = text.split("\n")
        caret = "-" * position + "^^^"
        excerpt = "\n".join([*lines[:line], caret, *lines[line:]])
        return cls(
            near=f"'{near}'" if near else "end of input",
            expected=expected,
            line=line,
            position=position,
            excerpt=excerpt,
        )


class MutuallyExclusiveClausesError(StatementSyntaxError):
    condition = "DELTA_PARSING_MUTUALLY_EXCLUSIVE_CLAUSES"
    sqlstate = "KD009"
    what = "Mutually exclusive clauses at or near {near}: expected {expected}."


class AppendOnlyTableError(DeltaAnalysisError):
    condition = "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    sqlstate = "42809"
    pyspark_class = "UnsupportedOperationException"
    what = "{table} is append-only (delta.appendOnly = true), but this write removes or changes rows."
    todo = (
        "Use mode append, or allow other writes first: ALTER TABLE delta.`{table}` SET TBLPROPERTIES "
        "(delta.appendOnly = false), or set_properties in a transaction without Spark."
    )
