"""Random statistics, and predicates over their columns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal

from hypothesis import strategies as st

from tahoe.protocol.types.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    Unknown,
)
from tahoe.protocol.types.schema import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Struct,
)

UTC = UTC

TYPES = {
    "i": INTEGER,
    "l": LONG,
    "f": FLOAT,
    "d": DOUBLE,
    "s": STRING,
    "day": DATE,
    "ts": TIMESTAMP,
    "ntz": TIMESTAMP_NTZ,
    "dec": Decimal(6, 2),
}

SCHEMA = Struct(
    (
        *(Field(name=name, type=kind) for name, kind in TYPES.items()),
        Field(name="n", type=Struct((Field(name="x", type=LONG),))),
        Field(name="p", type=LONG),
    )
)

# As they stand in JSON, and as literals: some are not of the column's type at all.
IN_JSON = {
    "i": st.sampled_from([0, 1, 2, None, "x", 1.5, 2**31, -(2**40)]),
    "l": st.sampled_from([0, 1, 2**40, None, True, 2**63]),
    "f": st.sampled_from([0.0, 0.1, 1.5, None, 1e300]),
    "d": st.sampled_from([-0.0, 0.1, 1e300, None, "NaN"]),
    "s": st.sampled_from(["", "a", "b", "ü", "a" * 32, None, 7]),
    "day": st.sampled_from(["2026-01-31", "0001-01-01", "9999-12-31", None, "soon"]),
    "ts": st.sampled_from(["2026-01-31T00:00:00.123Z", "2026-01-31T00:00:00.123+01:00", None]),
    "ntz": st.sampled_from(["2026-01-31T00:00:00.123", "1969-12-31T23:59:59.999", None]),
    "dec": st.sampled_from([0, 1.25, -9999.99, None]),
    "n": st.sampled_from([0, 5, None]).map(lambda v: {"x": v}),
}

LITERALS = {
    "i": st.sampled_from([0, 1, 2, 3]),
    "l": st.sampled_from([0, 1, 2**40]),
    "f": st.sampled_from([0.0, 0.10000000149011612, 1.5, float("nan")]),
    "d": st.sampled_from([0.0, 0.1, 1e300, float("nan"), float("inf")]),
    "s": st.sampled_from(["", "a", "b", "ü", "a" * 40]),
    "day": st.sampled_from([date(2026, 1, 31), date(1, 1, 1)]),
    "ts": st.sampled_from([datetime(2026, 1, 31, 0, 0, 0, 123_456, UTC), datetime(2026, 1, 31, tzinfo=UTC)]),
    "ntz": st.sampled_from([datetime(2026, 1, 31, 0, 0, 0, 123_456), datetime(1969, 12, 31, 23, 59, 59)]),
    "dec": st.sampled_from([PyDecimal("0"), PyDecimal("1.25"), PyDecimal("-9999.99"), PyDecimal("12.5")]),
    "n": st.sampled_from([0, 5]),
    "p": st.sampled_from([1, 2]),
}


@st.composite
def statistics(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, "", "{}", "broken", "[]", '{"numRecords":"x"}']))
    names = draw(st.lists(st.sampled_from(list(IN_JSON)), unique=True))
    body = {"numRecords": draw(st.integers(-1, 3))}
    for key in ("minValues", "maxValues"):
        body[key] = {name: draw(IN_JSON[name]) for name in names}
    body["nullCount"] = {
        name: {"x": 1} if name == "n" else draw(st.sampled_from([0, 1, 3, None, -1])) for name in names
    }
    if draw(st.booleans()):
        body["tightBounds"] = draw(st.booleans())
    return json.dumps(body)


@st.composite
def conditions(draw):
    name = draw(st.sampled_from(list(LITERALS)))
    column = Column((name, "x") if name == "n" else (name,))
    literal = draw(LITERALS[name])
    match draw(st.sampled_from(["compare", "in", "null", "prefix", "constant", "unknown"])):
        case "compare":
            operator = draw(st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]))
            return Comparison(operator, column, Literal(draw(st.sampled_from([literal, literal, literal, None]))))
        case "in":
            return In(column, tuple(draw(st.lists(st.one_of(LITERALS[name], st.none()), max_size=3))))
        case "null":
            return IsNull(column)
        case "prefix":
            return StartsWith(Column(("s",)), draw(st.sampled_from(["", "a", "ü"])))
        case "constant":
            return Constant(draw(st.sampled_from([True, False, None])))
        case _:
            return Unknown("?")


PREDICATES = st.recursive(
    conditions(),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=5,
)
