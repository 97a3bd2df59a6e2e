"""An overwrite with replaceWhere puts in what it takes out: rows for which the predicate holds, as the table stores
them, or nothing.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import ReplaceWhereMismatchError
from tahoe.table.arrow.types import delta_schema
from tahoe.table.writing.arrow_writer import write_arrow
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("q", pa.int64())])
ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["a", "b", None, "a b=%"]), st.sampled_from([0, 1, None])), max_size=6
)

# The text, and what it is of a row.
PREDICATES = {
    "p = 'a'": lambda p, q: p == "a",
    "p IS NULL": lambda p, q: p is None,
    "p <=> 'b' OR q > 0": lambda p, q: p == "b" or (q is not None and q > 0),
    "q IN (0, 1) AND p <> 'a'": lambda p, q: q is not None and p is not None and p != "a",
    "NOT (q = 0)": lambda p, q: q == 1,
}


def data(rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def write(table: tahoe.Table, rows: list[tuple[object, ...]], mode: str, **asked: object) -> None:
    write_arrow(table, data(rows), WriteRequest(mode=mode, schema=delta_schema(SCHEMA, table=table.url), **asked))


def rows_of(table: tahoe.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row[name] for name in SCHEMA.names) for row in table.to_arrow().to_pylist())


@given(before=ROWS, given=ROWS, text=st.sampled_from(sorted(PREDICATES)))
@example(before=[], given=[(1, "b", None)], text="p = 'a'")
@example(before=[(1, "a", 0)], given=[(2, None, 0)], text="p = 'a'")
def test_what_is_put_in_is_what_is_taken_out(before, given, text):
    table, holds = tahoe.Table("memory://replaced", env=memory_env()), PREDICATES[text]
    write(table, before, "append", partition_by=("p", "q"))
    is_right = all(holds(p, q) for _, p, q in given)
    try:
        write(table, given, "overwrite", replace_where=text)
        assert is_right
        assert rows_of(table) == Counter(row for row in before if not holds(*row[1:])) + Counter(given)
    except ReplaceWhereMismatchError:
        assert not is_right
        assert (table.version, rows_of(table)) == (0, Counter(before))
