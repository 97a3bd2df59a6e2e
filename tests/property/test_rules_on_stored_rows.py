"""A rule is checked on the row as it is stored: what was let in satisfies the rules for whoever reads it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tahoe
from tahoe.errors import CheckConstraintViolatedError, NotNullViolationError
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.partitions import HIVE_NULL, format_partition_value, parse_partition_value
from tahoe.protocol.types.schema import BINARY, STRING, Field, Primitive, Struct
from tahoe.protocol.types.schema import Decimal as DecimalType
from tahoe.table.arrow.types import arrow_type
from tahoe.table.writing.arrow_assignment import assign_arrow
from tests.table.builders import memory_env, put_commit

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    STRING: st.sampled_from(["", "a", " ", "NaN", "null", HIVE_NULL, "a/b", "é"]),
    BINARY: st.sampled_from([b"", b"a", "é".encode()]),
    Primitive("integer"): st.sampled_from([0, -1, 7]),
    Primitive("double"): st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), 1e300]),
    Primitive("float"): st.sampled_from([0.0, -0.0, 1.5, float("nan"), 0.125]),
    Primitive("boolean"): st.booleans(),
    Primitive("date"): st.sampled_from([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    Primitive("timestamp"): st.sampled_from(
        [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 1, 2, 3, 4, tzinfo=UTC)]
    ),
    DecimalType(10, 2): st.sampled_from([PyDecimal("0.00"), PyDecimal("-1.50")]),
}
CONSTRAINTS = (
    "p IS NOT NULL",
    "p = ''",
    "p <> ''",
    "p <=> ''",
    "p IS NULL OR p > 'A'",
    "p IS NULL OR x > 1",
    "NOT (p <=> 'a')",
    "p IN ('', 'a')",
)

kinds = st.sampled_from(list(VALUES))
columns = kinds.flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.one_of(st.none(), VALUES[kind]), min_size=1, max_size=4))
)


@given(columns)
def test_a_fitted_partition_column_holds_what_the_log_will_say(column: tuple[Any, list[Any]]) -> None:
    kind, values = column
    schema = Struct((Field(name="p", type=kind), Field(name="x", type=Primitive("integer"))))
    data = pa.table({"p": pa.array(values, arrow_type(kind)), "x": pa.array(range(len(values)), pa.int32())})
    fitted = assign_arrow(data, schema, zone=UTC, table="t", partition_columns=["p"]).column("p").to_pylist()
    stored = [parse_partition_value(format_partition_value(value, kind), kind) for value in fitted]
    assert texts(fitted) == texts(stored)
    as_plain_column = assign_arrow(data, schema, zone=UTC, table="t").column("p").to_pylist()
    assert texts(as_plain_column) == texts(values)


def texts(values: list[Any]) -> list[str]:
    """By which NaN is itself, and 0.0 is not -0.0."""
    return [value.isoformat() if isinstance(value, datetime) else repr(value) for value in values]


@given(
    kind=st.sampled_from([STRING, BINARY]),
    data=st.data(),
    nullable=st.booleans(),
    partitioned=st.booleans(),
    constraint=st.one_of(st.none(), st.sampled_from(CONSTRAINTS)),
)
def test_rows_that_are_let_in_satisfy_the_rules_as_they_are_read(
    kind: Primitive, data: st.DataObject, nullable: bool, partitioned: bool, constraint: str | None
) -> None:
    assume(kind == STRING or constraint in (None, "p IS NOT NULL", "p IS NULL OR x > 1"))
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[kind]), min_size=1, max_size=3))
    table = table_of(
        Struct((Field(name="p", type=kind, nullable=nullable), X)), ["p"] if partitioned else [], constraint
    )
    rows = pa.table({"p": pa.array(values, arrow_type(kind)), "x": pa.array(range(len(values)), pa.int32())})
    try:
        table.append(rows)
    except (CheckConstraintViolatedError, NotNullViolationError):
        return
    read = table.to_arrow()
    assert len(read) == len(values)
    assert nullable or read.column("p").null_count == 0
    if constraint is not None:
        assert len(table.to_arrow(filter=constraint)) == len(values)


X = Field(name="x", type=Primitive("integer"))


def table_of(schema: Struct, partition_columns: list[str], constraint: str | None = None) -> tahoe.Table:
    env = memory_env()
    configuration = {} if constraint is None else {"delta.constraints.c": constraint}
    metadata = Metadata(
        id="t", schema_string=schema.to_json(), partition_columns=tuple(partition_columns), configuration=configuration
    )
    features = frozenset({"checkConstraints", "generatedColumns", "allowColumnDefaults", "appendOnly", "invariants"})
    put_commit(env, 0, [Protocol(reader_version=1, writer_version=7, writer_features=features), metadata])
    return tahoe.Table(env.store.url, env=env)


def test_a_default_of_a_partition_column_is_seen_as_it_is_stored() -> None:
    p = Field(name="p", type=STRING, nullable=False, metadata={"CURRENT_DEFAULT": "''"})
    table = table_of(Struct((p, X)), ["p"])
    with pytest.raises(NotNullViolationError):
        table.append(pa.table({"x": pa.array([1], pa.int32())}))
