"""What comes of every way to write data of another type or shape than the table's: the same in the reference as here.

A row of the table is a write: the way, what may change the schema, the table, the data. Its outcome is the schema and
the rows of the table afterwards, or the condition and the SQLSTATE of the error. Each test asks about one way, in one
request, with some of the pairs of types and of the shapes; TAHOE_TURN asks about others.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tahoe import DeltaTable, Table
from tahoe.errors import DeltaError
from tahoe.storage.background import finish_background
from tests.interop import writes
from tests.interop.reference import Reference
from tests.sample import TURN

TYPES: Mapping[str, str] = {
    "TINYINT": "7Y",
    "SMALLINT": "7S",
    "INT": "7",
    "BIGINT": "7L",
    "FLOAT": "7.5F",
    "DOUBLE": "7.9D",
    "DECIMAL(5,2)": "CAST(7.25 AS DECIMAL(5,2))",
    "DECIMAL(12,4)": "CAST(7.25 AS DECIMAL(12,4))",
    "STRING": "'7'",
    "BOOLEAN": "true",
    "BINARY": "X'37'",
    "DATE": "date'2024-01-31'",
    "TIMESTAMP": "timestamp'2024-01-31 12:13:14.5'",
    "TIMESTAMP_NTZ": "timestamp_ntz'2024-01-31 12:13:14.5'",
    "VARIANT": "parse_json('7')",
    "ARRAY<INT>": "array(7)",
    "ARRAY<DOUBLE>": "array(7.9D)",
    "MAP<STRING, BIGINT>": "map('k', 7L)",
    "MAP<STRING, STRING>": "map('k', '7')",
    "STRUCT<x: SMALLINT>": "named_struct('x', 7S)",
    "STRUCT<x: BIGINT>": "named_struct('x', 7L)",
    "STRUCT<x: DOUBLE>": "named_struct('x', 7.9D)",
    "STRUCT<x: BIGINT, y: INT>": "named_struct('x', 7L, 'y', 1)",
}
PAIRS = list(product([*TYPES, "VARCHAR(3)"], [*TYPES.values(), "null"]))
# A number of pairs for each way and mode. It has no divisor in common with the number of pairs, so all of them have
# their turn.
PAIRS_EACH, STEP = 5, 37

# What may change the schema: options of the write, and properties of the table.
MODES: Mapping[str, tuple[Mapping[str, str], str]] = {
    "": ({}, ""),
    "mergeSchema": ({"mergeSchema": "true"}, ""),
    "overwriteSchema": ({"overwriteSchema": "true"}, ""),
    "mergeSchema, widening": ({"mergeSchema": "true"}, "'delta.enableTypeWidening'='true'"),
    "widening": ({}, "'delta.enableTypeWidening'='true'"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table, and data for it.

    Attributes:
        value: what UPDATE assigns to the column c.
        first: columns of the table's first row that are 1, as its id is.
    """

    columns: str
    properties: str = ""
    query: str
    value: str = "7"
    first: tuple[str, ...] = ()


def of(kind: str, value: str, rows: str = "") -> Shape:
    """A value for the column c of a type. `rows`: of what the value is computed, so that it is computed in a task."""
    return Shape(columns=f"id INT, c {kind}", query=f"SELECT 2 AS id, {value} AS c{rows}", value=value)


SMALL = "'delta.constraints.small'='c < 5'"
SHAPES: Mapping[str, Shape] = {
    "another column": Shape(columns="id INT, c INT", query="SELECT 2 AS id, 7 AS c, 8 AS d"),
    "a column less": Shape(columns="id INT, c INT, d INT", query="SELECT 2 AS id, 7 AS c"),
    "another order": Shape(columns="id INT, c STRING", query="SELECT 'x' AS c, 2 AS id", value="'x'"),
    "another case": Shape(columns="id INT, c INT", query="SELECT 2 AS ID, 7 AS C"),
    "another name": Shape(columns="id INT, c INT", query="SELECT 2 AS id, 7 AS z"),
    "another field": of("STRUCT<x: INT>", "named_struct('x', 1, 'y', 2)"),
    "a field less": of("STRUCT<x: INT, y: INT>", "named_struct('x', 1)"),
    "another field's name": of("STRUCT<x: INT>", "named_struct('z', 1)"),
    "another field in an array": of("ARRAY<STRUCT<x: INT>>", "array(named_struct('x', 1, 'y', 2))"),
    "a field less in an array": of("ARRAY<STRUCT<x: INT, y: INT>>", "array(named_struct('x', 1))"),
    "a field less in a map": of("MAP<STRING, STRUCT<x: INT, y: INT>>", "map('k', named_struct('x', 1))"),
    "null": Shape(
        columns="id INT, c INT NOT NULL",
        query="SELECT 2 AS id, CAST(null AS INT) AS c",
        value="CAST(null AS INT)",
        first=("c",),
    ),
    "no value": Shape(columns="id INT, c INT, d INT NOT NULL", query="SELECT 2 AS id, 7 AS c", first=("d",)),
    "no value of a field": of("STRUCT<x: INT, y: INT NOT NULL>", "named_struct('x', 1)"),
    "a constraint": Shape(columns="id INT, c INT", properties=SMALL, query="SELECT 2 AS id, 7 AS c", first=("c",)),
    "a constraint's column": Shape(
        columns="id INT, c INT", properties=SMALL, query="SELECT 2 AS id, 3L AS c", value="3L", first=("c",)
    ),
    "a generated value": Shape(
        columns="id INT, c INT, g INT GENERATED ALWAYS AS (c + 1)", query="SELECT 2 AS id, 7 AS c, 1 AS g"
    ),
    "a generated column's column": Shape(
        columns="id INT, c INT, g INT GENERATED ALWAYS AS (c + 1)", query="SELECT 2 AS id, 7L AS c, 8 AS g", value="7L"
    ),
    "long text": of("VARCHAR(3)", "'abcd'"),
    "long text for a char": of("CHAR(3)", "'abcd'"),
    "long text in a struct": of("STRUCT<x: VARCHAR(3)>", "named_struct('x', 'abcd')"),
    "division by zero": of("DOUBLE", "id / 0", " FROM range(3)"),
    "overflow": of("BIGINT", "id + 9223372036854775807L", " FROM range(1, 3)"),
    "text that is no number": of("INT", "CAST(concat('x', id) AS INT)", " FROM range(3)"),
    "an error of the user": of("STRING", "CAST(raise_error(concat('boom', id)) AS STRING)", " FROM range(3)"),
    "an index": of("INT", "array(1)[int(id)]", " FROM range(1, 3)"),
    "text that is no date": of("DATE", "to_date(concat('x', id))", " FROM range(3)"),
    "an error of a function in Python": of("INT", "fails(int(id))", " FROM range(3)"),
    "a subquery of many rows": of("INT", "(SELECT int(id) FROM range(3))"),
    "no column but the id": Shape(columns="id INT, c INT", query="SELECT 2 AS id"),
    "append-only": Shape(
        columns="id INT, c INT", properties="'delta.appendOnly'='true'", query="SELECT 2 AS id, 7 AS c"
    ),
    "a number of days": of("DATE", "7"),
    "a date in an array": of("ARRAY<INT>", "array(date'2024-01-01')"),
    "an interval": of("STRING", "INTERVAL 3 DAYS"),
    "a collation": of("STRING", "'x' COLLATE UTF8_LCASE"),
    "a date in a struct": of("STRUCT<x: INT>", "named_struct('x', date'2024-01-01')"),
}

# Values that do not fit into a column of a type to which Spark casts them.
UNFIT: Sequence[tuple[str, str]] = (
    *(("'x'", kind) for kind in ("INT", "DOUBLE", "DECIMAL(4,2)", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")),
    *(
        ("'300'", "TINYINT"),
        ("'1234.5'", "DECIMAL(4,2)"),
        ("300", "TINYINT"),
        ("4294967297L", "INT"),
        ("1e20D", "BIGINT"),
    ),
    *(
        ("300.5F", "TINYINT"),
        ("double('NaN')", "INT"),
        ("1234.5BD", "DECIMAL(4,2)"),
        ("300.5BD", "TINYINT"),
        ("1234", "DECIMAL(4,2)"),
    ),
    *(("1e10D", "DECIMAL(4,2)"), ("true", "DECIMAL(1,1)"), ("timestamp'2024-01-31 12:13:14'", "SMALLINT")),
    *(("double('Infinity')", "TIMESTAMP"), ("parse_json('\"x\"')", "INT"), ("parse_json('300')", "TINYINT")),
    *(
        ("array('x')", "ARRAY<INT>"),
        ("array(4294967297L)", "ARRAY<INT>"),
        ("map('k', 4294967297L)", "MAP<STRING, INT>"),
    ),
    *(("named_struct('x', 'x')", "STRUCT<x: INT>"), ("array(named_struct('x', 4294967297L))", "ARRAY<STRUCT<x: INT>>")),
    ("INTERVAL 300 DAYS", "TINYINT"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    way: str
    mode: str
    about: str
    shape: Shape

    @property
    def properties(self) -> str:
        return ", ".join(text for text in (self.shape.properties, MODES[self.mode][1]) if text)

    def as_code(self, path: Path) -> dict[str, object]:
        options = MODES[self.mode][0]
        takes_options = self.way in writes.BY_PATH or self.way.startswith(
            ("stream", "saveAsTable", "insertInto", "writeTo")
        )
        names = [
            part.rpartition(" AS ")[2]
            for part in self.shape.query.removeprefix("SELECT ").partition(" FROM ")[0].split(", ")
        ]
        columns = ", ".join(name for name in names if name.isidentifier())
        return {
            "code": writes.code(
                self.way, str(path), self.shape.query, value=self.shape.value, columns=columns, options=options
            ),
            "settings": {writes.MERGES: "true"} if "mergeSchema" in options and not takes_options else {},
        }


def writes_of(way: str) -> Iterator[Write]:
    """The writes that a way is asked about."""
    place = list(writes.WAYS).index(way)
    for number, mode in enumerate(MODES):
        first = (place * len(MODES) + number) * PAIRS_EACH * STEP + TURN
        for at in range(PAIRS_EACH):
            kind, value = PAIRS[(first + at * STEP) % len(PAIRS)]
            yield Write(way=way, mode=mode, about=f"{value} in {kind}", shape=of(kind, value))
    for name, shape in list(SHAPES.items())[(place + TURN) % 3 :: 3]:
        yield Write(way=way, mode="", about=name, shape=shape)
    for value, kind in UNFIT[(place + TURN) % 5 :: 5]:
        yield Write(way=way, mode="", about=f"{value} in {kind}", shape=of(kind, value))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comes of a write: a condition with its SQLSTATE, None where it is not told; or the schema and the rows of
    the table.
    """

    condition: str = ""
    sqlstate: str | None = None
    stored: str = ""

    @classmethod
    def of(cls, refusal: Sequence[str | None] | None, path: Path) -> Outcome:
        if refusal is not None:
            return cls(condition=str(refusal[1]), sqlstate=refusal[2])
        snapshot = Table(path).snapshot()
        return cls(stored=f"{snapshot.schema} {sorted(map(str, snapshot.to_arrow().to_pylist()))}")

    def is_like(self, other: Outcome) -> bool:
        same_state = None in (self.sqlstate, other.sqlstate) or self.sqlstate == other.sqlstate
        return (_without_suggestion(self.condition), self.stored) == (
            _without_suggestion(other.condition),
            other.stored,
        ) and same_state


def _without_suggestion(condition: str) -> str:
    """The condition of a cast that Spark does not make, without what it suggests: the reference asks it in ANSI mode in
    some ways only.
    """
    return "DATATYPE_MISMATCH.CAST" if condition.startswith("DATATYPE_MISMATCH.CAST_WITH") else condition


class Templates:
    """Tables with a row, each of them made once."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._paths: dict[tuple[str, tuple[str, ...]], Path] = {}

    def copy(self, write: Write, path: Path) -> None:
        """Put the table of a write at a path."""
        partitioning = " PARTITIONED BY (id)" if write.way == "save dynamic" else ""
        properties = f" TBLPROPERTIES ({write.properties})" if write.properties else ""
        definition = f"({write.shape.columns}) USING delta{partitioning}{properties}"
        key = definition, write.shape.first
        if key not in self._paths:
            made = self._paths[key] = self._folder / f"template{len(self._paths)}"
            self._spark.sql(f"CREATE TABLE delta.`{made}` {definition}")
            Table(made).append(pa.table({name: pa.array([1], pa.int32()) for name in ("id", *write.shape.first)}))
            finish_background()  # so that nothing comes to its log while it is copied
        shutil.copytree(self._paths[key], path)


def all_outcomes(
    spark: SparkSession, reference: Reference, templates: Templates, folder: Path, asked: Sequence[Write]
) -> Iterator[tuple[Write, Outcome, Outcome]]:
    """Each write with its outcome in the reference, and here."""
    theirs, ours = (
        [folder / f"theirs{number}" for number in range(len(asked))],
        [folder / f"ours{number}" for number in range(len(asked))],
    )
    for write, *paths in zip(asked, theirs, ours, strict=True):
        for path in paths:
            templates.copy(write, path)
    refused = reference.writes([write.as_code(path) for write, path in zip(asked, theirs, strict=True)])
    refused_here = writes.run_all(
        spark, DeltaTable, [write.as_code(path) for write, path in zip(asked, ours, strict=True)]
    )
    for write, their, at, our, here in zip(asked, refused, theirs, refused_here, ours, strict=True):
        yield write, Outcome.of(their, at), Outcome.of(our, here)


@pytest.fixture(scope="module")
def templates(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(spark, tmp_path_factory.mktemp("templates"))


@pytest.mark.parametrize("way", writes.WAYS)
def test_every_write_has_the_outcome_that_it_has_in_the_reference(
    spark: SparkSession, reference: Reference, templates: Templates, tmp_path: Path, way: str
) -> None:
    """A value is stored that the reference refuses, or another one; or a program that catches a condition does not find
    it.
    """
    wrong = [
        told(write, theirs, ours)
        for write, theirs, ours in all_outcomes(spark, reference, templates, tmp_path, list(writes_of(way)))
        if not theirs.is_like(ours) and not is_meant(write, theirs, ours)
    ]
    assert not wrong, "\n".join(wrong)


def told(write: Write, theirs: Outcome, ours: Outcome) -> str:
    return f"{write.way} [{write.mode}] {write.about}:\n    the reference: {theirs}\n    here: {ours}"


# --- without Spark

# The options of a write as arguments.
ARGUMENTS = {"mergeSchema": "merge_schema", "overwriteSchema": "overwrite_schema"}

# The methods of `Table` that write rows, by the way that does the same in Spark.
METHODS: Mapping[str, str] = {"save append": "append", "save overwrite": "overwrite"}


# What the reference has for data of another type. Here a number or a time may have another type, if the column keeps
# its value; a value that it would change has one condition.
CHANGED = "DELTA_FAILED_TO_MERGE_FIELDS"
OF_ANOTHER_TYPE = (
    "DELTA_FAILED_TO_MERGE_FIELDS",
    "DELTA_METADATA_MISMATCH",
    "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH",
    "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH",
)


def arrow_writes(way: str) -> list[Write]:
    """The writes of a way whose rows Spark gives without an error, and that the method has an argument for."""
    return [
        write
        for write in writes_of(way)
        if not (METHODS[way] == "append" and write.mode == "overwriteSchema")
        and not any(part in write.shape.query for part in (" FROM ", "parse_json"))
    ]


def outcome_without_spark(write: Write, rows: pa.Table, path: Path) -> Outcome:
    arguments = {ARGUMENTS[option]: True for option in MODES[write.mode][0]}
    try:
        getattr(Table(path), METHODS[write.way])(rows, **arguments)
    except DeltaError as error:
        return Outcome(condition=error.condition, sqlstate=error.sqlstate)
    return Outcome.of(None, path)


def keeps_the_value(rows: pa.Table, path: Path) -> bool:
    """Whether the table has the value of the data, whatever its type is there."""
    stored = Table(path).snapshot().to_arrow(filter="id = 2").column("c").combine_chunks()
    return stored.cast(rows.column("c").type).equals(rows.column("c").combine_chunks())


@pytest.mark.parametrize("way", METHODS)
def test_every_write_without_spark_has_the_outcome_that_it_has_in_the_reference(
    spark: SparkSession, reference: Reference, templates: Templates, tmp_path: Path, way: str
) -> None:
    """A write of Arrow data stores another value than it was given, or refuses with another condition than the
    reference.
    """
    asked, wrong = arrow_writes(way), []
    theirs, ours = (
        [tmp_path / f"theirs{number}" for number in range(len(asked))],
        [tmp_path / f"ours{number}" for number in range(len(asked))],
    )
    for write, *paths in zip(asked, theirs, ours, strict=True):
        for path in paths:
            templates.copy(write, path)
    refused = reference.writes([write.as_code(path) for write, path in zip(asked, theirs, strict=True)])
    for write, refusal, at, here in zip(asked, refused, theirs, ours, strict=True):
        rows = spark.sql(write.shape.query).toArrow()
        their, our = Outcome.of(refusal, at), outcome_without_spark(write, rows, here)
        if their.is_like(our) or is_meant(write, their, our):
            continue
        if their.condition in OF_ANOTHER_TYPE and (
            our.condition == CHANGED or (our.stored and keeps_the_value(rows, here))
        ):
            continue
        wrong.append(told(write, their, our))
    assert not wrong, "\n".join(wrong)


# --- what differs on purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is meant to differ, and why.

    Attributes:
        theirs, ours: conditions; empty for a write that is done, None for any outcome.
        way, mode, about: parts of the write's.
    """

    why: str
    theirs: str | None
    ours: str | None
    way: str = ""
    mode: str = ""
    about: str = ""


MEANT: Sequence[Difference] = (
    *(
        Difference(
            why="the reference ignores the option with replaceWhere, and with dynamic replaces the whole table",
            theirs=None,
            ours="DELTA_ILLEGAL_OPTION",
            way=way,
            mode="overwriteSchema",
        )
        for way in ("save replaceWhere", "save dynamic", "writeTo overwrite")
    ),
    Difference(
        why="the reference casts to the schema that the option asks to replace",
        theirs=None,
        ours="",
        way="insertInto",
        mode="overwriteSchema",
    ),
    *(
        Difference(why="a struct may lack fields by name, as it may by path", theirs=theirs, ours=ours, way=way)
        for way in ("INSERT BY NAME", "INSERT (columns)")
        for theirs, ours in (
            ("DELTA_INSERT_COLUMN_ARITY_MISMATCH", ""),
            ("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "DELTA_MISSING_NOT_NULL_COLUMN_VALUE"),
            ("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", ""),
        )
    ),
    *(
        Difference(
            why="the reference tells of any broken rule as of rows outside of the predicate",
            theirs="DELTA_REPLACE_WHERE_MISMATCH",
            ours=ours,
        )
        for ours in (
            "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
            "DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
        )
    ),
    Difference(
        why="a column of nulls only is a column of the data",
        theirs="DELTA_NON_PARTITION_COLUMN_ABSENT",
        ours="",
        way="save dynamic",
    ),
    Difference(
        why="a type that an overwrite brings turns on its feature, as it does for a new table",
        theirs="DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT",
        ours="",
    ),
    *(
        Difference(
            why="DeltaTable.update has the conditions of UPDATE, and takes fields by their names",
            theirs=theirs,
            ours=ours,
            way="DeltaTable.update",
        )
        for theirs, ours in (
            ("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"),
            ("", "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"),
            ("NOT_NULL_ASSERT_VIOLATION", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),
            ("EXCEED_LIMIT_LENGTH", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"),
            ("CAST_OVERFLOW", "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
            ("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
        )
    ),
    Difference(
        why="one condition for a struct with too few fields, wherever it is",
        theirs="DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
        ours="DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        about="a field less in an array",
    ),
    *(
        Difference(
            why="the reference tells of a value that does not fit only that a task failed",
            theirs="STREAM_FAILED",
            ours=ours,
            way="stream",
        )
        for ours in ("CAST_OVERFLOW_IN_TABLE_INSERT", "CAST_INVALID_INPUT")
    ),
    Difference(
        why="texts of limited length inside of structs need Spark",
        theirs="DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
        ours="DELTA_UNSUPPORTED_OPERATION",
        about="long text in a struct",
    ),
    Difference(
        why="a column without a value is told before any row is read, as by INSERT",
        theirs="DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        ours="DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
        way="MERGE",
    ),
    Difference(why="an internal error of the reference", theirs="INTERNAL_ERROR", ours=None, way="MERGE"),
    *(
        Difference(
            why="one condition for a type that Delta does not have",
            theirs=theirs,
            ours="DELTA_UNSUPPORTED_DATA_TYPES",
            about=about,
        )
        for theirs, about in (
            ("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "INTERVAL"),
            ("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "an interval"),
            ("DELTA_FAILED_TO_MERGE_FIELDS", "a collation"),
            ("DELTA_FAILED_TO_MERGE_FIELDS", "INTERVAL"),
            ("DELTA_FAILED_TO_MERGE_FIELDS", "an interval"),
        )
    ),
    Difference(
        why="the text without a collation is the same",
        theirs="DELTA_FAILED_TO_MERGE_FIELDS",
        ours="",
        way="stream",
        about="a collation",
    ),
)


def is_meant(write: Write, theirs: Outcome, ours: Outcome) -> bool:
    return any(
        difference.theirs in (None, theirs.condition)
        and difference.ours in (None, ours.condition)
        and difference.way in write.way
        and difference.mode in write.mode
        and difference.about in write.about
        for difference in MEANT
    )
