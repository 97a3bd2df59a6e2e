"""What a value becomes in a column of another type: by every way to write rows, under every policy, as the reference
has it.

One write asks about many pairs of types at once: a table has a column for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tahoe.errors import DeltaError
from tests.interop.reference import Reference
from tests.interop.rows import rows, spark_rows

POLICY = "spark.sql.storeAssignmentPolicy"
FOLLOWS_ANSI = {"spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag": "true"}

# A way to store what `{q}` gives, as code over `spark`: that of the columns `id` and those of the table `{t}`, which
# has a row of the id 1.
ADDING: Mapping[str, str] = {
    "INSERT": 'spark.sql("""INSERT INTO {t} {q}""")',
    "INSERT (columns)": 'spark.sql("""INSERT INTO {t} ({columns}) {q}""")',
    "INSERT BY NAME": 'spark.sql("""INSERT INTO {t} BY NAME {q}""")',
    "INSERT OVERWRITE": 'spark.sql("""INSERT OVERWRITE {t} {q}""")',
    "INSERT REPLACE WHERE": 'spark.sql("""INSERT INTO {t} REPLACE WHERE id = 2 {q}""")',
    "insertInto": 'spark.sql("""{q}""").write.insertInto("{t}")',
    "writeTo": 'spark.sql("""{q}""").writeTo("{t}").append()',
}
CHANGING: Mapping[str, str] = {
    "UPDATE": 'spark.sql("""UPDATE {t} SET {sets}""")',
    "MERGE INSERT *": 'spark.sql("""MERGE INTO {t} t USING ({q}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *""")',
    "MERGE INSERT": (
        'spark.sql("""MERGE INTO {t} t USING ({q}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT ({columns}) '
        'VALUES ({columns})""")'
    ),
    "MERGE UPDATE *": 'spark.sql("""MERGE INTO {t} t USING ({q}) s ON t.id = s.id - 1 WHEN MATCHED THEN UPDATE SET *""")',
    "MERGE UPDATE": 'spark.sql("""MERGE INTO {t} t USING ({q}) s ON t.id = s.id - 1 WHEN MATCHED THEN UPDATE SET {froms}""")',
}
# The same of values without names, which are taken by their places.
BY_POSITION: Mapping[str, str] = {
    "VALUES": 'spark.sql("""INSERT INTO {t} VALUES (2, {values})""")',
    "SELECT": 'spark.sql("""INSERT INTO {t} SELECT 2, {values}""")',
    "OVERWRITE": 'spark.sql("""INSERT OVERWRITE {t} SELECT 2, {values}""")',
    "insertInto of values": 'spark.sql("""SELECT 2, {values}""").write.insertInto("{t}")',
}
WAYS = {**ADDING, **CHANGING}

# Values and the types of the columns that they fit in, by the ANSI cast.
FITTING: Sequence[tuple[str, str]] = (
    *(
        (text, kind)
        for text, kind in (
            ("'7'", "INT"),
            ("' 8 '", "BIGINT"),
            ("'2024-01-31'", "DATE"),
            ("'1.25'", "DECIMAL(5,2)"),
            ("'x'", "BINARY"),
        )
    ),
    *(("'2024-01-31 12:13:14'", kind) for kind in ("TIMESTAMP", "TIMESTAMP_NTZ")),
    *(("'true'", kind) for kind in ("BOOLEAN",)),
    *(("'1e3'", kind) for kind in ("DOUBLE", "FLOAT")),
    *(("100L", kind) for kind in ("TINYINT", "INT", "DECIMAL(5,2)", "FLOAT", "STRING", "BOOLEAN", "TIMESTAMP")),
    *(("2.75D", kind) for kind in ("INT", "BIGINT", "DECIMAL(3,1)", "STRING", "FLOAT")),
    *(("12.345BD", kind) for kind in ("DECIMAL(4,2)", "INT", "DOUBLE", "STRING", "BOOLEAN")),
    *(("true", kind) for kind in ("INT", "STRING", "DECIMAL(3,1)")),
    *(("date'2024-01-31'", kind) for kind in ("STRING", "TIMESTAMP", "TIMESTAMP_NTZ")),
    *(("timestamp'2024-01-31 12:13:14.5'", kind) for kind in ("STRING", "DATE", "BIGINT", "TIMESTAMP_NTZ", "DOUBLE")),
    *(("timestamp_ntz'2024-01-31 12:13:14.5'", kind) for kind in ("STRING", "DATE", "TIMESTAMP")),
    *(("X'6162'", kind) for kind in ("STRING",)),
    ("null", "STRUCT<x: INT>"),
    ("array('1', null)", "ARRAY<INT>"),
    ("array(1, 2)", "STRING"),
    ("map('1', '2024-01-31')", "MAP<INT, DATE>"),
    ("named_struct('x', '1', 'y', array(2L))", "STRUCT<x: INT, y: ARRAY<TINYINT>>"),
    ("array(named_struct('x', '1'))", "ARRAY<STRUCT<x: INT>>"),
)

# Values that do not fit, and what they are for; the old mode stores something.
UNFIT: Sequence[tuple[str, str]] = (
    ("'x'", "INT"),
    ("'2024-02-31'", "DATE"),
    ("'never'", "TIMESTAMP"),
    ("'maybe'", "BOOLEAN"),
    ("'1234.5'", "DECIMAL(4,2)"),
    ("4294967297L", "INT"),
    ("300", "TINYINT"),
    ("1e20D", "BIGINT"),
    ("1234.5BD", "DECIMAL(4,2)"),
    ("array('1', 'x')", "ARRAY<INT>"),
    ("named_struct('x', 4294967297L)", "STRUCT<x: INT>"),
    ("map('k', 'x')", "MAP<STRING, INT>"),
)

# What is refused before any row is looked at, by ANSI, and what only the old mode takes.
REFUSED: Sequence[tuple[str, str]] = (
    ("date'2024-01-31'", "INT"),
    ("1", "DATE"),
    ("true", "DATE"),
    ("array(1)", "INT"),
    ("1", "BINARY"),
)
OLD: Sequence[tuple[str, str]] = (*UNFIT, ("date'2024-01-31'", "INT"), ("1", "BINARY"), ("true", "TIMESTAMP"))

# What STRICT takes, and what it does not.
SAFE: Sequence[tuple[str, str]] = (
    ("7", "BIGINT"),
    ("7", "DOUBLE"),
    ("7", "DECIMAL(12,2)"),
    ("1.5BD", "DECIMAL(10,4)"),
    ("7", "STRING"),
    ("array(7)", "ARRAY<BIGINT>"),
    ("named_struct('x', 7)", "STRUCT<x: BIGINT>"),
)
UNSAFE: Sequence[tuple[str, str]] = (
    ("7L", "INT"),
    ("'7'", "INT"),
    ("1.5D", "FLOAT"),
    ("12.345BD", "DECIMAL(4,2)"),
    ("7", "DECIMAL(5,2)"),
    ("array(7L)", "ARRAY<INT>"),
)


# What Delta has no type for.
FOREIGN: Sequence[tuple[str, str]] = (
    ("'x' COLLATE UTF8_LCASE", "STRING"),
    ("'7' COLLATE UTF8_LCASE", "INT"),
    *(("INTERVAL 3 DAYS", kind) for kind in ("STRING", "BIGINT", "TINYINT", "DECIMAL(10,2)")),
    *(("INTERVAL '1-2' YEAR TO MONTH", kind) for kind in ("STRING", "INT", "DECIMAL(10,2)")),
    *(("INTERVAL '1.75' SECOND", kind) for kind in ("STRING", "INT", "DECIMAL(10,1)")),
    ("INTERVAL '1 2' DAY TO HOUR", "INT"),
    ("TIME'10:00:00.5'", "STRING"),
    ("array('x' COLLATE UTF8_LCASE)", "ARRAY<STRING>"),
    ("named_struct('x', INTERVAL 3 DAYS)", "STRUCT<x: BIGINT>"),
)

# Structs whose fields are the table's by their places, and those that are so by their names.
PAIR = "STRUCT<a: INT, b: INT>"
SHAPES = (
    ("{}", "{}"),
    ("array({})", "ARRAY<{}>"),
    ("map('k', {})", "MAP<STRING, {}>"),
    ("struct(array({}))", "STRUCT<n: ARRAY<{}>>"),
)
PLACED: Sequence[tuple[str, str]] = [
    (value.format(struct), kind.format(PAIR))
    for value, kind in SHAPES
    for struct in (
        "struct(1, 2)",
        "named_struct('b', 1, 'a', 2)",
        "named_struct('b', 1L, 'a', '2')",
        "named_struct('A', 1, 'z', 2)",
    )
]
MOVED: Sequence[tuple[str, str]] = [
    (value.replace("struct(a", "named_struct('n', a").format("named_struct('b', 1, 'a', 2)"), kind.format(PAIR))
    for value, kind in SHAPES
]
SHORT: Sequence[tuple[str, str]] = [(value.format("named_struct('a', 1)"), kind.format(PAIR)) for value, kind in SHAPES]


class Both:
    """A table of the reference's and one of ours, to which the same is done."""

    def __init__(self, spark: SparkSession, reference: Reference, folder: Path) -> None:
        self.spark, self.reference, self.folder, self.made = spark, reference, folder, 0

    def store(
        self, way: str, pairs: Sequence[tuple[str, str]], settings: Mapping[str, str]
    ) -> tuple[str | None, str | None, bool]:
        """The errors of the reference and of ours, and whether both tables hold the same rows."""
        self.made += 1
        theirs, ours = self.folder / f"theirs{self.made}", self.folder / f"ours{self.made}"
        columns = ", ".join(f"c{number} {kind}" for number, (_, kind) in enumerate(pairs))
        for run, path in ((self.reference.run, theirs), (self.spark.sql, ours)):
            run(f"CREATE TABLE delta.`{path}` (id INT, {columns}) USING delta")
            if way in CHANGING:
                run(f"INSERT INTO delta.`{path}` (id) VALUES (1)")
        with self.reference.settings(settings):
            found = self.reference.complaint(theirs, code(way, theirs, pairs))
        refused = self._ours(code(way, ours, pairs), settings)
        read = self.spark.read.format("delta").load
        return None if found is None else found[1], refused, rows_of(read(str(theirs))) == rows_of(read(str(ours)))

    def _ours(self, text: str, settings: Mapping[str, str]) -> str | None:
        before = {name: self.spark.conf.get(name, None) for name in settings}
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        try:
            eval(text, {"spark": self.spark})
        except (PySparkException, DeltaError) as error:
            return str(error)
        finally:
            for name, value in before.items():
                self.spark.conf.unset(name) if value is None else self.spark.conf.set(name, value)
        return None


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(rows(spark_rows(frame)), key=repr)


def code(way: str, path: Path, pairs: Sequence[tuple[str, str]]) -> str:
    names = [f"c{number}" for number in range(len(pairs))]
    given = [f"{value} AS {name}" for name, (value, _) in zip(names, pairs, strict=True)]
    return {**WAYS, **BY_POSITION}[way].format(
        t=f"delta.`{path}`",
        values=", ".join(value for value, _ in pairs),
        q=f"SELECT 2 AS id, {', '.join(given)}",
        columns=", ".join(["id", *names]),
        sets=", ".join(f"{name} = {value}" for name, (value, _) in zip(names, pairs, strict=True)),
        froms=", ".join(f"{name} = s.{name}" for name in names),
    )


@pytest.fixture
def both(spark: SparkSession, reference: Reference, tmp_path: Path) -> Both:
    return Both(spark, reference, tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_what_fits_is_stored_alike(both: Both, way: str) -> None:
    """A value of another type is refused here, or becomes another value than with the reference."""
    assert both.store(way, FITTING, {}) == (None, None, True)
    assert both.store(way, OLD, {POLICY: "LEGACY"}) == (None, None, True)
    assert both.store(way, SAFE, {POLICY: "STRICT"}) == (None, None, True)


# Each pair is asked of one way, and each way of some pairs.
EACH = [(list(WAYS)[number % len(WAYS)], pair, "ANSI") for number, pair in enumerate([*UNFIT, *REFUSED])]
EACH += [(list(WAYS)[(2 * number) % len(WAYS)], pair, "STRICT") for number, pair in enumerate(UNSAFE)]


def test_what_does_not_fit_is_refused_by_both(both: Both) -> None:
    """A value is lost without a word, in one of the two, or stored by one of them alone."""
    wrong = []
    for way, pair, policy in EACH:
        theirs, ours, is_same = both.store(way, [pair], {POLICY: policy})
        if theirs is None or ours is None or not is_same:
            wrong.append((way, pair, policy, theirs and theirs[:200], ours and ours[:200]))
    assert wrong == []


@pytest.mark.parametrize("way", ["INSERT", "UPDATE", "MERGE INSERT *"])
def test_updates_may_follow_the_ansi_mode(both: Both, way: str) -> None:
    """The setting counts for statements that it does not count for with the reference, or the other way round."""
    for ansi in ("true", "false"):
        theirs, ours, is_same = both.store(
            way, [("'x'", "INT"), ("4294967297L", "INT")], {**FOLLOWS_ANSI, "spark.sql.ansi.enabled": ansi}
        )
        assert ((theirs is None), is_same) == ((ours is None), True), (ansi, theirs, ours)


@pytest.mark.parametrize("way", WAYS)
def test_what_delta_has_no_type_for_is_stored_alike(both: Both, way: str) -> None:
    assert both.store(way, FOREIGN, {}) == (None, None, True)


@pytest.mark.parametrize("way", BY_POSITION)
def test_fields_by_their_places_are_stored_alike(both: Both, way: str) -> None:
    """The fields of a struct land in other fields than with the reference, or are refused."""
    assert both.store(way, PLACED, {}) == (None, None, True)
    for pair in SHORT:
        theirs, ours, is_same = both.store(way, [pair], {})
        assert theirs is not None
        assert ours is not None
        assert is_same


@pytest.mark.parametrize("way", ["INSERT", "INSERT OVERWRITE", "INSERT REPLACE WHERE", "insertInto"])
def test_fields_by_their_names_are_stored_alike(both: Both, way: str) -> None:
    """Columns of the table's names and types, whose structs have their fields in another order."""
    assert both.store(way, MOVED, {}) == (None, None, True)
