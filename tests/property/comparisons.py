"""Every comparison of doubles with every kind of value: as SQL text, and as it is defined.

The values are an ordinary number, NaN, both zeros, the infinities and NULL. The operands are a column, a field of a
struct and a computed expression; the other side is a literal, the literal NULL or another column. NaN equals itself and
is greater than all other numbers.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

Row: TypeAlias = Mapping[str, Any]
Truth: TypeAlias = "bool | None"

VALUES = [1.5, math.nan, 0.0, -0.0, math.inf, -math.inf, None]
LITERALS = {
    "1.5D": 1.5,
    "CAST('NaN' AS DOUBLE)": math.nan,
    "0.0D": 0.0,
    "-0.0D": -0.0,
    "CAST('Infinity' AS DOUBLE)": math.inf,
    "CAST('-Infinity' AS DOUBLE)": -math.inf,
    "NULL": None,
}
OPERANDS = {"d": "d", "st.d": "d", "d * 1D": "d", "CASE WHEN k >= 0 THEN st.d END": "d"}


def rows() -> list[dict[str, Any]]:
    """Each pair of values; where the first is NULL, the struct is now NULL, now has a NULL."""
    pairs = itertools.product(VALUES, VALUES)
    return [{"k": k, "d": d, "e": e, "st": None if d is None and k % 2 else {"d": d}} for k, (d, e) in enumerate(pairs)]


SCHEMA = pa.schema(
    [("k", pa.int64()), ("d", pa.float64()), ("e", pa.float64()), ("st", pa.struct([("d", pa.float64())]))]
)


@dataclass(frozen=True)
class Condition:
    """`truth` is what the text is for a row; None is SQL's NULL."""

    text: str
    truth: Callable[[Row], Truth]


# --- the definition


def place(number: float) -> tuple[bool, float]:
    """A key that orders numbers as Spark does."""
    return (True, 0.0) if math.isnan(number) else (False, number)


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(symbol: str, left: float | None, right: float | None) -> Truth:
    if symbol == "<=>":
        return left is None and right is None if left is None or right is None else place(left) == place(right)
    return None if left is None or right is None else _TESTS[symbol](place(left), place(right))


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def conjunction(*parts: Truth) -> Truth:
    return False if False in parts else None if None in parts else True


def disjunction(*parts: Truth) -> Truth:
    return negated(conjunction(*map(negated, parts)))


# --- the table


def simple() -> Iterator[Condition]:
    """Single comparisons, with a literal on either side, and with another column."""
    others: dict[str, Callable[[Row], float | None]] = {
        text: lambda row, v=value: v for text, value in LITERALS.items()
    }
    others["e"] = lambda row: row["e"]
    for operand, (text, other), symbol in itertools.product(OPERANDS, others.items(), (*_TESTS, "<=>")):
        yield Condition(f"{operand} {symbol} {text}", lambda row, s=symbol, o=other: compared(s, row["d"], o(row)))
        yield Condition(f"{text} {symbol} {operand}", lambda row, s=symbol, o=other: compared(s, o(row), row["d"]))


def lists() -> Iterator[Condition]:
    """IN and BETWEEN with each pair of literals."""
    pairs = itertools.product(LITERALS.items(), LITERALS.items())
    for operand, ((one, low), (two, high)) in itertools.product(("st.d", "d * 1D"), pairs):
        among = lambda row, a=low, b=high: disjunction(compared("=", row["d"], a), compared("=", row["d"], b))  # noqa: E731
        within = lambda row, a=low, b=high: conjunction(compared(">=", row["d"], a), compared("<=", row["d"], b))  # noqa: E731
        yield Condition(f"{operand} IN ({one}, {two})", among)
        yield Condition(f"{operand} NOT IN ({one}, {two})", lambda row, of=among: negated(of(row)))
        yield Condition(f"{operand} BETWEEN {one} AND {two}", within)
        yield Condition(f"{operand} NOT BETWEEN {one} AND {two}", lambda row, of=within: negated(of(row)))


def joined(one: Condition, two: Condition) -> Iterator[Condition]:
    """Two conditions by AND and OR, and their negations."""
    both, either = f"({one.text}) AND ({two.text})", f"({one.text}) OR ({two.text})"
    yield Condition(both, lambda row: conjunction(one.truth(row), two.truth(row)))
    yield Condition(either, lambda row: disjunction(one.truth(row), two.truth(row)))
    yield Condition(f"NOT ({both})", lambda row: negated(conjunction(one.truth(row), two.truth(row))))
    yield Condition(f"NOT ({either})", lambda row: negated(disjunction(one.truth(row), two.truth(row))))


def conditions() -> list[Condition]:
    """All of the table: each condition alone, negated, and joined with another one."""
    single = [*simple(), *lists()]
    found = list(single)
    found += [Condition(f"NOT ({each.text})", lambda row, of=each.truth: negated(of(row))) for each in single]
    # 331 is prime to the number of conditions, so that each meets one of another kind.
    for number, each in enumerate(single):
        found += itertools.islice(joined(each, single[(number + 331) % len(single)]), number % 4, number % 4 + 1)
    return found
