"""Carries Python errors through the JVM, so that the user catches the exception that tahoe raised in a callback.

An error in a callback is kept under an id and travels through Java as an exception with that id. Where PySpark converts
Java exceptions, it becomes the same Python exception again. Of PySpark, tahoe replaces this conversion, and `is_remote`
in the process of a Connect client and its server (`connect_mode`).
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
import traceback
from typing import Any, Self

import pyspark.errors
from py4j.java_gateway import JavaClass, is_instance_of
from pyspark import SparkContext
from pyspark.errors import ParseException, StreamingQueryException
from pyspark.errors.exceptions import captured

from tahoe._cached import Recent
from tahoe.errors import (
    DataFileMissingError,
    DeltaDataError,
    DeltaError,
    InvalidDataFileError,
    NativeEngineError,
    StatementSyntaxError,
    TextNotUtf8Error,
)
from tahoe.spark.jvm.gateway import JavaObject, java_error
from tahoe.spark.jvm.table_cache import owner_of
from tahoe.sql.grammar import parse

JAVA_CLASS = "delta.PythonError"

# Where clients of Spark Connect are served: around a `delta.PythonError`, an exception of the class by which a client
# knows the error. The names on the left are those of PySpark's classes, and those of our classes that the reference's
# client knows too.
CLIENTS_CLASSES = {
    "AnalysisException": "delta.connect.AnalysisError",
    "ParseException": "delta.connect.SyntaxError",
    "IllegalArgumentException": "delta.connect.ArgumentError",
    "UnsupportedOperationException": "delta.connect.UnsupportedError",
    "PySparkException": "delta.connect.SparkError",
}
CONFLICTS = "DeltaConcurrentModificationException"
CONFLICTS_PACKAGE = "io.delta.exceptions."

# Spark's exception class and condition for a file that it cannot read.
SPARK_CLASS = "org.apache.spark.SparkException"
UNREADABLE = "FAILED_READ_FILE"

# Comet's exception for what fails in its library, other than errors of the query's values.
COMET_CLASS = "org.apache.comet.CometNativeException"

# What Comet says of a file with such text.
NOT_UTF8 = "non UTF-8 data"

# How many errors are kept. Spark may keep an exception as long as a query and raise it again; if the error is no longer
# kept, the user gets the message only.
KEPT_MAX = 1000

# How many wrapping exceptions are searched for one of ours.
CAUSES_MAX = 20

_kept: Recent[int, BaseException] = Recent(KEPT_MAX)
_next_id = itertools.count(1)
_has_clients = threading.Event()


# --- Python to Java


def tell_clients() -> None:
    """From now on, errors have the classes by which clients of Spark Connect know them. `delta.connect` must be
    compiled.
    """
    _has_clients.set()


def to_java(jvm: JavaObject, error: BaseException) -> JavaObject:
    """The Java exception for a Python exception: the Java exception that caused it if there is one, else a
    `delta.PythonError`.
    """
    origin = java_error(error)
    if origin is not None:
        return origin
    number = next(_next_id)
    _kept.put(number, error)
    exception = JavaClass(JAVA_CLASS, jvm._gateway_client)
    if isinstance(error, DeltaError):
        parameters = {name: str(value) for name, value in error.parameters.items()}
        java_exception = exception(str(error), number, error.condition, error.sqlstate, parameters)
        return (
            JavaClass(class_for_clients(type(error)), jvm._gateway_client)(java_exception)
            if _has_clients.is_set()
            else java_exception
        )
    text = "".join(traceback.format_exception(error))
    return exception(f"{type(error).__name__}: {error}\n{text}", number, None, None, {})


def class_for_clients(kind: type[DeltaError]) -> str:
    """The Java class by which clients of Spark Connect know an error."""
    names = [base.__name__ for base in kind.__mro__]
    if CONFLICTS in names:
        name = next((name for name in names if name.endswith("Exception")), CONFLICTS)
        return CONFLICTS_PACKAGE + name
    return CLIENTS_CLASSES.get(kind.pyspark_class, CLIENTS_CLASSES["PySparkException"])


# --- Java to Python


def install() -> None:
    """Make PySpark's conversion of Java exceptions return our errors. Idempotent; it affects the whole process."""
    convert = captured.convert_exception
    if getattr(convert, "gives_back_ours", False):
        return

    @functools.wraps(convert)
    def convert_or_give_back(exception: JavaObject) -> Any:
        converted, ours = convert(exception), _ours(exception)
        # Programs that run streams catch Spark's class, whose text contains our error.
        if ours is None or isinstance(converted, StreamingQueryException):
            converted = _with_note_of_refusal(_with_note_of_sql(_as_user_error(converted), exception))
            return _with_note_of_file(converted, ours)
        return _with_note_of_cause(ours)

    convert_or_give_back.gives_back_ours = True  # type: ignore[attr-defined]
    # the converted exception need not be a PySpark exception
    captured.convert_exception = convert_or_give_back  # type: ignore[assignment]


# A hidden column of ours among the columns that Spark suggests, with its qualifier.
_OUR_COLUMN = re.compile(r"(?:`(?:[^`]|``)+`\.)*`__tahoe_[^`]*`(?:, )?")
_PLAN = ";\n"


class _OfTheUsers(captured.AnalysisException):
    """Spark's AnalysisException for a query that contains hidden columns of ours, with these columns removed from its
    text.
    """

    def getMessage(self) -> str:  # noqa: N802  PySpark's name
        return without_our_columns(super().getMessage())

    def getMessageParameters(self) -> dict[str, str] | None:  # noqa: N802  PySpark's name
        return {name: without_our_columns(value) for name, value in (super().getMessageParameters() or {}).items()}


_OfTheUsers.__name__ = _OfTheUsers.__qualname__ = captured.AnalysisException.__name__
_OfTheUsers.__module__ = captured.AnalysisException.__module__


def _as_user_error(converted: Any) -> Any:
    if type(converted) is captured.AnalysisException and "__tahoe_" in converted._desc:
        converted._desc = without_our_columns(converted._desc)
        converted.__class__ = _OfTheUsers
    return converted


def without_our_columns(message: str) -> str:
    """Spark's message without our hidden columns among its suggestions, and without its plan if the plan contains such
    columns.
    """
    text, mark, plan = message.partition(_PLAN)
    text = _OUR_COLUMN.sub("", text).replace("`, ]", "`]")
    return text if "__tahoe_" in plan else text + mark + plan


def _with_note_of_sql(converted: Any, exception: JavaObject) -> Any:
    """Add a note if Spark's parser refused a Delta statement, which happens in sessions whose parser could not be
    replaced.
    """
    if isinstance(converted, ParseException) and exception.getClass().getSimpleName() == "ParseException":
        text = exception.command()
        if text.isDefined() and _is_statement(str(text.get())):
            converted.add_note(
                "The parser of this session does not support this Delta statement: run it with tahoe.sql(spark, text)."
            )
    return converted


# What Spark refuses before it asks us, by a part of its text that names one of our classes, and what a user can do.
_NOTES = {
    "DefaultSource source does not support user-specified schema": (
        "A Delta table is read with the schema in its log. Leave out schema(...), and cast columns afterwards."
    ),
    "delta.StreamSink is not in the sink allowlist for Real-Time Mode": (
        "A Delta table is written in whole commits, so it does not support real-time triggers, whatever the "
        "setting. Use "
        'trigger(processingTime="0 seconds") for a batch as soon as there are rows.'
    ),
}


def _with_note_of_refusal(converted: Any) -> Any:
    """Add a note to a refusal of Spark's that says too little."""
    for text in (text for text in _NOTES if text in str(converted)):
        converted.add_note(_NOTES[text])
    return converted


def _with_note_of_file(converted: Any, ours: BaseException | None) -> Any:
    """Add a note if a stream has failed because of a data file, about which Spark knows neither the table nor the
    version.
    """
    if isinstance(ours, DeltaDataError) and ours.condition not in str(converted):
        converted.add_note(str(ours))
    return converted


def _is_statement(text: str) -> bool:
    try:
        return parse(text) is not None
    except StatementSyntaxError:
        return True


def _with_note_of_cause(error: BaseException) -> BaseException:
    """The error for the user, with its cause as a note, because PySpark raises converted exceptions "from None"."""
    caught, cause = for_user(error), error.__cause__
    if cause is not None:
        caught.add_note(f"Caused by {type(cause).__name__}: {cause}")
    return caught


def _ours(exception: JavaObject) -> BaseException | None:
    """Our error behind a Java exception, which Spark may have wrapped; None if there is none."""
    for _ in range(CAUSES_MAX):
        if exception is None:
            return None
        kind = exception.getClass().getName()
        if kind == JAVA_CLASS:
            return _kept.get(exception.id())
        if kind == COMET_CLASS:
            return NativeEngineError(detail=_first_line(exception.getMessage()))
        if kind == SPARK_CLASS and (error := _data_error(exception)) is not None:
            return error
        exception = exception.getCause()
    return None


def _first_line(message: object) -> str:
    return str(message).partition("\n")[0].rstrip(".\r")


def _data_error(exception: JavaObject) -> DeltaError | None:
    """Our error for a data file that Spark cannot read; None for another failure, or a file that belongs to no cached
    table.
    """
    condition = exception.getCondition()
    if condition is None or not condition.startswith(UNREADABLE):
        return None
    file = str(exception.getMessageParameters().get("path"))
    cause = exception.getCause()
    detail = _first_line(exception.getMessage() if cause is None or cause.getMessage() is None else cause.getMessage())
    if not file:  # Comet's shuffle does not know which file it reads
        return NativeEngineError(detail=detail)
    owner = owner_of(file)
    if owner is None:
        return None
    url, version = owner
    if condition == UNREADABLE + ".FILE_NOT_EXIST":
        return DataFileMissingError.of(table=url, file=file, version=version)
    return (TextNotUtf8Error if NOT_UTF8 in detail else InvalidDataFileError)(table=url, file=file, detail=detail)


def file_not_read(error: BaseException) -> tuple[str, str] | None:
    """The file that Spark could not read, and why, in sentences; None if the failure is another."""
    exception, file, own = java_error(error), None, ""
    reasons: list[str] = []
    for _ in range(CAUSES_MAX):
        if exception is None:
            break
        if file is not None:
            reasons.append(_first_line(exception.getMessage()))
        elif exception.getClass().getName() == SPARK_CLASS and str(exception.getCondition()).startswith(UNREADABLE):
            file, own = str(exception.getMessageParameters().get("path")), _first_line(exception.getMessage())
        exception = exception.getCause()
    if file is None:
        return None
    told = dict.fromkeys(reason for reason in reasons if reason not in ("", "None"))
    return file, "".join(f" {reason}." for reason in told or [own]).lstrip()


# --- Spark's own errors

# Classes of SQLSTATE by which Spark marks what is no fault of the query: its own errors, and those of the system below
# it.
_NOT_OF_THE_QUERY = ("XX", "58")


def error_of_the_query(error: BaseException) -> BaseException | None:
    """The error that Spark has for a fault of a query whose job failed, such as a division by zero or an exception in a
    Python function: of Spark's class, with Spark's condition. None if the job failed for another reason.
    """
    exception = java_error(error)
    for depth in range(CAUSES_MAX):
        if exception is None:
            return None
        if _is_of_the_query(exception):
            return error if depth == 0 else captured.convert_exception(exception)
        exception = exception.getCause()
    return None


def _is_of_the_query(exception: JavaObject) -> bool:
    if not is_instance_of(SparkContext._gateway, exception, "org.apache.spark.SparkThrowable"):
        return False
    condition, state = exception.getCondition(), exception.getSqlState()
    return condition is not None and state is not None and not str(state).startswith(_NOT_OF_THE_QUERY)


# --- exceptions for users of Spark


def for_user(error: BaseException) -> BaseException:
    """The error as an exception that is also of the matching PySpark class, such as `AnalysisException`."""
    if not isinstance(error, DeltaError) or isinstance(error, _Both):
        return error
    both = _as_both(type(error), error.parameters, error.next_step)
    both.__cause__, both.__traceback__ = error.__cause__, error.__traceback__
    return both


def _as_both(kind: type[DeltaError], parameters: dict[str, Any], next_step: str) -> BaseException:
    return _both_of(kind)(**parameters).restate(next_step)


_classes: dict[str, type[DeltaError]] = {}


def _both_of(kind: type[DeltaError]) -> type[DeltaError]:
    """A subclass of both the error's class and its PySpark class, which implements PySpark's methods with the error's
    values.
    """
    if kind.__name__ not in _classes:
        members = {"__doc__": kind.__doc__, "__module__": kind.__module__}
        _classes[kind.__name__] = type(
            kind.__name__, (_Both, kind, getattr(pyspark.errors, kind.pyspark_class)), members
        )
    return _classes[kind.__name__]


class _Both(DeltaError):
    """Implements the methods of PySpark's exceptions for our errors."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.restate(self.next_step)  # PySpark's constructor, which follows in the MRO, leaves `args` empty

    def restate(self, next_step: str) -> Self:
        super().restate(next_step)
        self._message = str(self.args[0])  # PySpark's
        return self

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> Any:
        kind = type(self).__mro__[2]
        return (_as_both, (kind, self.parameters, self.next_step))

    def getCondition(self) -> str:  # noqa: N802  PySpark's name
        return self.condition

    def getErrorClass(self) -> str:  # noqa: N802  PySpark's name
        return self.condition

    def getSqlState(self) -> str:  # noqa: N802  PySpark's name
        return self.sqlstate

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802  PySpark's name
        return {name: str(value) for name, value in self.parameters.items()}

    def getMessage(self) -> str:  # noqa: N802  PySpark's name
        return str(self)

    def getQueryContext(self) -> list[Any]:  # noqa: N802  PySpark's name
        return []
