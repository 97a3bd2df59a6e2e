"""Whether two engines gave the same rows: in any order, with numbers that are equal but for rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Rows = Sequence[Sequence[Any]]


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except ValueError:
        return None


def _key(row: Sequence[Any]) -> list[str]:
    """By which rows are sorted: texts first and numbers roughly, so that rounding does not change the order, and then
    by where these are, and by what they are exactly.
    """
    texts = [str(value) for value in row if _number(value) is None]
    numbers = [number for value in row if (number := _number(value)) is not None]
    places = "".join("t" if _number(value) is None else "n" for value in row)
    return [*texts, *(f"{number:.3g}" for number in numbers), places, *map(str, numbers)]


def _are_equal(one: Any, other: Any) -> bool:
    first, second = _number(one), _number(other)
    if first is None or second is None:
        return str(one) == str(other)
    return math.isclose(first, second, rel_tol=1e-5, abs_tol=1e-2)


def same(one: Rows, other: Rows) -> bool:
    """Whether these are the same rows."""
    if len(one) != len(other):
        return False
    pairs = zip(sorted(one, key=_key), sorted(other, key=_key), strict=True)
    return all(len(a) == len(b) and all(map(_are_equal, a, b)) for a, b in pairs)
