"""COPY INTO as it is parsed, and a call as it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import StatementSyntaxError
from tahoe.sql.copy_into import written
from tahoe.sql.grammar import parse
from tahoe.sql.statements import CopyInto, Name


def parsed(text: str) -> CopyInto:
    found = parse(text)
    assert found is not None
    assert isinstance(found.statement, CopyInto)
    return found.statement


def test_the_shortest_statement() -> None:
    found = parsed("copy into a.b from 's3://in/x' fileformat = csv;")
    assert (found.table, found.source.text, found.format) == (Name(parts=("a", "b")), "'s3://in/x'", "csv")
    assert found == CopyInto(table=found.table, source=found.source, format="csv")


def test_all_clauses() -> None:
    found = parsed(
        """COPY INTO delta.`/data/t` (a, `b c`)
           FROM (SELECT _c0::int AS a, concat(_c1, ', '), extract(year FROM _c2) FROM '/in')
           FILEFORMAT = CSV VALIDATE 15 ROWS PATTERN = 'x/*.{csv,gz}'
           FORMAT_OPTIONS ('header' = 'false', sep = ';', 'maxColumns' = 20, multiLine = true)
           COPY_OPTIONS ('mergeSchema' = 'true', 'force' = 'true')"""
    )
    assert found.table == Name(parts=("delta", "/data/t"))
    assert found.columns == ("a", "b c")
    assert found.select == ("_c0::int AS a", "concat(_c1, ', ')", "extract(year FROM _c2)")
    assert found.source.text == "'/in'"
    assert (found.validate, found.validate_rows, found.pattern, found.files) == (True, 15, "x/*.{csv,gz}", None)
    assert dict(found.format_options) == {"header": "false", "sep": ";", "maxColumns": "20", "multiLine": "true"}
    assert dict(found.copy_options) == {"mergeSchema": "true", "force": "true"}


def test_by_position_files_a_parameter_and_clauses_in_any_order() -> None:
    found = parsed(
        "COPY INTO IDENTIFIER(:t) BY POSITION FROM :source FILEFORMAT = 'JSON' COPY_OPTIONS ('force' = true) "
        "FILES = ('a.json', 'b.json') VALIDATE ALL"
    )
    assert found.by_position
    assert found.source.text == ":source"
    assert found.files == ("a.json", "b.json")
    assert (found.validate, found.validate_rows) == (True, None)
    assert parsed("COPY INTO t FROM (SELECT * FROM ?) FILEFORMAT = CSV VALIDATE").validate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COPY INTO t '/in' FILEFORMAT = CSV", "FROM"),
        ("COPY INTO t FROM '/in'", "FILEFORMAT"),
        ("COPY INTO t FROM '/in' FILEFORMAT CSV", "'='"),
        ("COPY INTO t FROM '/in' FILEFORMAT = CSV FILES = ()", "name of a file"),
        ("COPY INTO t FROM '/in' FILEFORMAT = CSV FILES = ('a') PATTERN = 'b'", "either FILES or PATTERN"),
        ("COPY INTO t FROM '/in' FILEFORMAT = CSV VALIDATE VALIDATE", "each clause once"),
        ("COPY INTO t FROM '/in' FILEFORMAT = CSV VALIDATE 0 ROWS", "positive number"),
        ("COPY INTO t FROM '/in' FILEFORMAT = CSV OPTIONS ('a' = 'b')", "end of the statement"),
        ("COPY INTO t FROM '/in' WITH (CREDENTIAL c) FILEFORMAT = CSV", "those of the session"),
        ("COPY INTO t FROM (SELECT a) FILEFORMAT = CSV", "expression"),
        ("COPY INTO t FROM (SELECT a FROM '/in' WHERE a > 1) FILEFORMAT = CSV", "loads all rows of a file"),
        ("COPY INTO t () FROM '/in' FILEFORMAT = CSV", "a column"),
    ],
)
def test_what_does_not_parse_says_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(StatementSyntaxError, match=expected):
        parse(text)


texts = st.text(max_size=20)


@given(
    path=st.text(min_size=1, max_size=20),
    files=st.none() | st.lists(texts, min_size=1, max_size=3),
    options=st.dictionaries(texts, texts, max_size=3),
    columns=st.none() | st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=3),
)
def test_a_call_is_written_as_the_statement_that_it_is(
    path: str, files: list[str] | None, options: dict[str, str], columns: list[str] | None
) -> None:
    found = parsed(
        written(
            table=Name(path=path),
            format="CSV",
            select=["a, 1 AS b"],
            columns=columns,
            files=files,
            format_options=options,
            validate=7,
        )
    )
    assert found.table == Name(parts=("delta", path))
    assert found.columns == (None if columns is None else tuple(columns))
    assert found.files == (None if files is None else tuple(files))
    assert dict(found.format_options) == options
    assert found.select == ("a", "1 AS b")
    assert found.validate_rows == 7
