"""The keys of a MERGE: which rows of a target file match which rows of the source.

A condition is split into equalities of an expression over the target with one over the source, and the rest. Equalities
are looked up, the rest is computed for the pairs that are left. As in SQL, NULL equals nothing, NaN equals NaN, and 0.0
equals -0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.types.expressions import Call, Expression, Reference, references
from tahoe.protocol.types.predicate import TRUE, And, Column, Comparison, In, IsNull, Literal, Or, Predicate, is_nan
from tahoe.protocol.types.schema import BOOLEAN, Primitive
from tahoe.table.arrow.chunks import one_array

Rows: TypeAlias = npt.NDArray[np.int64]

# A source with more keys than this skips files by the smallest and the largest key.
_LISTED_KEYS_MAX = 10_000

# Pairs of rows that are looked at together if no equality restricts them.
_PAIRS_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Key:
    """An equality of both sides. `is_null_safe`: NULL equals NULL."""

    target: Expression
    source: Expression
    is_null_safe: bool


def split(condition: Expression, target: str, source: str) -> tuple[list[Key], Expression | None]:
    """The keys of a condition, and the rest of it; None if there is no rest."""
    keys: list[Key] = []
    rest: Expression | None = None
    for part in _conjuncts(condition):
        key = _key(part, target, source)
        if key is not None:
            keys.append(key)
        else:
            rest = part if rest is None else Call("and", (rest, part), BOOLEAN)
    return keys, rest


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    match condition:
        case Call("and", (left, right)):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield condition


def _key(part: Expression, target: str, source: str) -> Key | None:
    match part:
        case Call("=" | "<=>" as symbol, (left, right)):
            sides = [{reference.path[0] for reference in references(each)} for each in (left, right)]
            if sides == [{target}, {source}]:
                return Key(left, right, symbol == "<=>")
            if sides == [{source}, {target}]:
                return Key(right, left, symbol == "<=>")
    return None


class Matcher:
    """Finds the source rows of target rows by their keys.

    Args:
        keys: the values of the source's rows, one array for each key.
        null_safe: of which keys NULL equals NULL.
    """

    def __init__(self, keys: Sequence[pa.Array], null_safe: Sequence[bool], source_rows: int) -> None:
        self._null_safe, self._source_rows = null_safe, source_rows
        self._distinct = [comparable(values).unique() for values in keys]
        self._levels: list[npt.NDArray[np.int64]] = []
        codes = np.zeros(source_rows, np.int64)
        for place, values in enumerate(keys):
            combined = self._combine_codes(codes, self._coded(place, values), place)
            level = _sorted_distinct(combined[combined >= 0])
            self._levels.append(level)
            codes = _places_of(level, combined)
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]

    def pairs(self, keys: Sequence[pa.Array], rows: int) -> Iterator[tuple[Rows, Rows]]:
        """The positions of matching target and source rows; all pairs, in parts of bounded size, without keys."""
        if not keys:
            step = max(1, _PAIRS_MAX // max(1, rows))
            for start in range(0, self._source_rows if rows else 0, step):
                part = np.arange(start, min(start + step, self._source_rows))
                yield np.tile(np.arange(rows), len(part)), np.repeat(part, rows)
            return
        first = self._coded(0, keys[0])
        # `left`: the rows that may still match, few as a rule. `codes`: their places among the source's keys so far.
        left = np.flatnonzero(first >= 0)
        codes = _places_of(self._levels[0], first[left].astype(np.int64))
        left, codes = left[codes >= 0], codes[codes >= 0]  # those whose first key is in the source
        for place, values in enumerate(keys[1:], 1):
            next_codes = self._coded(place, one_array(values).take(pa.array(left)))
            there = np.flatnonzero(next_codes >= 0)
            codes = _places_of(self._levels[place], self._combine_codes(codes[there], next_codes[there], place))
            left, codes = left[there[codes >= 0]], codes[codes >= 0]  # those of which a source row has all keys so far
        low, high = np.searchsorted(self._codes, codes, "left"), np.searchsorted(self._codes, codes, "right")
        target = np.repeat(left, high - low)
        starts = np.repeat(low - np.cumsum(high - low) + (high - low), high - low)
        yield target, self._order[starts + np.arange(len(target))]

    def _coded(self, place: int, values: pa.Array) -> Rows:
        """The numbers of values among the distinct ones of the source; -1 for others. Whole numbers of 32 bits."""
        found = pc.index_in(comparable(values), value_set=self._distinct[place], skip_nulls=not self._null_safe[place])
        return np.asarray(pc.fill_null(found, -1))

    def _combine_codes(self, codes: Rows, next_codes: Rows, place: int) -> Rows:
        combined = codes * (len(self._distinct[place]) + 1) + next_codes
        return np.where((codes < 0) | (next_codes < 0), -1, combined)


def _sorted_distinct(values: Rows) -> Rows:
    """The distinct values in order. `numpy.unique` hashes them first, which takes ten times as long for a million."""
    ordered: Rows = np.sort(values)
    is_first: npt.NDArray[np.bool_] = np.concatenate([np.ones(len(ordered[:1]), bool), ordered[1:] != ordered[:-1]])
    return np.compress(is_first, ordered)


def _places_of(level: Rows, combined: Rows) -> Rows:
    """The places of values in a sorted array; -1 for values that it does not have."""
    if not len(level):
        return np.full(len(combined), -1, np.int64)
    places = np.minimum(np.searchsorted(level, combined), len(level) - 1)
    return np.where((combined >= 0) & (level[places] == combined), places, -1)


def comparable(values: pa.Array) -> pa.Array:
    """Values that are equal exactly if their bits are: one NaN, and no -0.0."""
    values = one_array(values)
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(
        pc.is_nan(values), pa.scalar(float("nan"), values.type), pc.add(values, pa.scalar(0.0, values.type))
    )


# --- data skipping


def predicate_of_keys(keys: Sequence[Key], values: Sequence[pa.Array]) -> Predicate:
    """A predicate over the target that is true for every row that matches a row of the source by its keys."""
    parts = [_predicate_of_key(key, distinct) for key, distinct in zip(keys, map(pc.unique, values), strict=True)]
    return And(tuple(part for part in parts if part != TRUE)) if any(part != TRUE for part in parts) else TRUE


def _predicate_of_key(key: Key, distinct: pa.Array) -> Predicate:
    """A condition that all keys fulfil: a list of few keys, the range of many. TRUE if the target is not a column, or
    if the keys have no literals or no order.
    """
    if not isinstance(key.target, Reference) or (
        isinstance(key.target.type, Primitive) and key.target.type.name == "boolean"
    ):
        return TRUE
    column = Column(key.target.path[1:])
    values = distinct.drop_null()
    predicate: Predicate
    try:
        if len(values) <= _LISTED_KEYS_MAX:
            predicate = In(column, tuple(values.to_pylist()))
        else:
            low, high = pc.min_max(values).as_py().values()
            predicate = And((Comparison(">=", column, Literal(low)), Comparison("<=", column, Literal(high))))
            if pa.types.is_floating(values.type) and (is_nan(low) or is_nan(high) or pc.any(pc.is_nan(values)).as_py()):
                return TRUE
    except (
        OverflowError,
        ValueError,
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
    ):  # beyond Python's calendar, or without an order
        return TRUE
    return Or((predicate, IsNull(column))) if key.is_null_safe and distinct.null_count else predicate


def chosen_clauses(masks: Sequence[pa.Array], rows: int) -> Rows:
    """For each row the number of the first clause whose condition is true; -1 if there is none."""
    found = np.full(rows, -1, np.int64)
    for number, mask in enumerate(masks):
        holds = np.asarray(pc.fill_null(mask, False))
        found = np.where((found < 0) & holds, number, found)
    return found
