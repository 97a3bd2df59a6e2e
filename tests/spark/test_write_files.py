"""What Spark leaves behind of a write, read without Spark: folder names and error messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.types.partitions import HIVE_NULL, partition_folder
from tahoe.protocol.types.schema import BOOLEAN, DATE, DOUBLE, LONG, STRING, TIMESTAMP, Decimal
from tahoe.spark.writing.data_writer import _partition_values, _serialiser, cause, unescape_folder

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(TEXTS)
def test_a_folder_name_tells_its_value(text: str) -> None:
    # a value that changes on the way is a partition that nobody finds
    folder = partition_folder(["p"], {"p": text})
    assert "/" not in folder
    assert unescape_folder(folder.partition("=")[2]) == text


@given(TEXTS, TEXTS, TEXTS)
def test_a_key_tells_the_values_of_its_partition(name: str, first: str, second: str) -> None:
    names = [name, name + "2"]
    key = partition_folder(names, {name: first, name + "2": second}) + "/part-00000-x.parquet"
    serialise = [_serialiser(STRING, "t")] * 2
    expected = {n: None if v == HIVE_NULL else v for n, v in zip(names, (first, second), strict=True)}
    assert _partition_values(names, serialise, key) == expected


@pytest.mark.parametrize(
    ("kind", "sparks", "protocols"),
    [
        (TIMESTAMP, "2024-03-10 09%3A59%3A59.5", "2024-03-10T09:59:59.500000Z"),
        (DATE, "2024-02-29", "2024-02-29"),
        (DOUBLE, "1.0E10", "10000000000.0"),
        (DOUBLE, "NaN", "NaN"),
        (DOUBLE, "-Infinity", "-Infinity"),
        (Decimal(10, 3), "1.500", "1.500"),
        (Decimal(20, 10), "1E-10", "0.0000000001"),
        (BOOLEAN, "true", "true"),
        (LONG, "-7", "-7"),
        (LONG, HIVE_NULL, None),
        (STRING, HIVE_NULL, None),
    ],
)
def test_values_are_written_as_the_protocol_has_them(kind: object, sparks: str, protocols: str | None) -> None:
    assert _serialiser(kind, "t")(sparks) == protocols  # type: ignore[arg-type]


IN_A_TASK = """An error occurred while calling o1.write.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times, most recent failure: Lost task 0.0 \
in stage 3.0 (TID 6) (10.0.0.1 executor driver): java.io.IOException: disk full
	at org.apache.hadoop.fs"""

WHILE_WRITING = """Job aborted due to stage failure: Task 0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 6) \
(10.0.0.1 executor driver): org.apache.spark.SparkException: [TASK_WRITE_FAILED] no.
	at org.apache.spark.sql
Caused by: java.lang.RuntimeException: x
	at y
Caused by: java.io.IOException: File name too long
	... 10 more

Driver stacktrace:
Caused by: org.apache.spark.SparkException: of the driver"""

IN_PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File x
ValueError: boom

"""


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\nselect",
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012.",
        ),
        (IN_PYTHON, "ValueError: boom."),
        (IN_A_TASK, "java.io.IOException: disk full."),
        (
            WHILE_WRITING,
            "org.apache.spark.SparkException: [TASK_WRITE_FAILED] no. It was caused by java.io.IOException: File "
            "name too long.",
        ),
        (
            "An error occurred while calling o1.write.\n: java.lang.RuntimeException: no\n\tat x",
            "java.lang.RuntimeException: no.",
        ),
        ("", "no reason was given."),
    ],
)
def test_the_line_that_tells_what_happened(message: str, told: str) -> None:
    assert cause(message) == told
