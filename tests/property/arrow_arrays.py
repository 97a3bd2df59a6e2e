"""Arrow arrays of the same values in every layout that Arrow has, at every depth."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st


@dataclass(frozen=True)
class Shape:
    """A type of values, and the layout in which an array has them.

    Attributes:
        kind: `leaf`, `list`, `struct` or `map`.
        type: of a leaf.
        layouts: from the inside outwards: how the array is wrapped.
        children: of a list its elements, of a struct its fields, of a map its keys and values.
    """

    kind: str
    type: pa.DataType | None = None
    layouts: tuple[str, ...] = ()
    children: tuple[Shape, ...] = ()


class OfAProgram(pa.ExtensionType):
    """An extension type of a program."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.of_a_program")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> OfAProgram:
        return cls(storage)


TEXTS = st.sampled_from(["", "a", "ä€", "a text that no view holds inline"])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXTS,
    pa.binary(): TEXTS.map(str.encode),
    pa.int64(): st.integers(-9, 9),
    pa.int16(): st.integers(-9, 9),
    pa.float64(): st.sampled_from([-1.5, 0.0, 3.25]),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 2): st.sampled_from([Decimal("1.25"), Decimal("-3.00")]),
    pa.date32(): st.sampled_from([dt.date(2026, 1, 1), dt.date(1970, 1, 1)]),
    pa.timestamp("us"): st.sampled_from([dt.datetime(2026, 1, 1), dt.datetime(1970, 1, 1, 1)]),
}
UUIDS = st.integers(0, 3).map(lambda number: str(UUID(int=number)))

# Layouts of the buffers of a leaf, by its type; and those that wrap an array of any type.
BUFFERS = {
    pa.string(): ("plain", "large", "view", "uuid", "json"),
    pa.binary(): ("plain", "large", "view"),
    pa.bool_(): ("plain", "bool8"),
}
EXTENSIONS = ("uuid", "json", "bool8")
WRAPS = ("dictionary", "runs", "extension")
LISTS = ("list", "large_list", "list_view", "large_list_view", "fixed")


@st.composite
def leaves(draw: st.DrawFn) -> Shape:
    kind = draw(st.sampled_from(list(VALUES)))
    layout = draw(st.sampled_from(BUFFERS.get(kind, ("plain",))))
    usable = WRAPS[:2] if layout in EXTENSIONS else WRAPS  # PyArrow aborts at extension types of extension types
    return Shape("leaf", kind, (layout, *draw(st.lists(st.sampled_from(usable), max_size=2, unique=True))))


def _nested(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    wraps = st.sampled_from([(), (), ("extension",), ("runs",)])
    keys = leaves().filter(lambda shape: shape.type == pa.string())
    lists = st.builds(
        lambda child, layout, outer: Shape("list", None, (layout, *outer), (child,)),
        inner,
        st.sampled_from(LISTS),
        wraps,
    )
    fields = st.lists(inner, min_size=1, max_size=2).map(tuple)
    structs = st.builds(lambda children, outer: Shape("struct", None, ("plain", *outer), children), fields, wraps)
    maps = st.builds(lambda key, value, outer: Shape("map", None, ("plain", *outer), (key, value)), keys, inner, wraps)
    return lists | structs | maps


SHAPES = st.recursive(leaves(), _nested, max_leaves=4)


def values_of(shape: Shape) -> st.SearchStrategy[Any]:
    """A value of a shape, or None."""
    return st.none() | present_values(shape)


def present_values(shape: Shape) -> st.SearchStrategy[Any]:
    if shape.kind == "leaf":
        assert shape.type is not None
        return {"uuid": UUIDS, "json": st.sampled_from(["1", '{"a": []}'])}.get(shape.layouts[0], VALUES[shape.type])
    inner = [values_of(child) for child in shape.children]
    if shape.kind == "list":
        sizes = {"min_size": 2, "max_size": 2} if shape.layouts[0] == "fixed" else {"max_size": 3}
        return st.lists(inner[0], **sizes)
    if shape.kind == "struct":
        return st.fixed_dictionaries({f"f{place}": value for place, value in enumerate(inner)})
    return st.lists(
        st.tuples(present_values(shape.children[0]), inner[1]), max_size=2, unique_by=lambda entry: entry[0]
    )


def array_of(shape: Shape, values: list[Any]) -> pa.Array:
    """The values in the layout of a shape. Below nulls there are other values, and nulls: readers must not see them."""
    return _wrapped(shape, values, shape.layouts[1:])


def _wrapped(shape: Shape, values: list[Any], wraps: tuple[str, ...]) -> pa.Array:
    if not wraps:
        return {"leaf": _leaf, "list": _list, "struct": _struct, "map": _map}[shape.kind](shape, values)
    inner, count = wraps[:-1], len(values)
    if wraps[-1] == "dictionary":
        indices = [None if value is None and place % 2 else count - 1 - place for place, value in enumerate(values)]
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), _wrapped(shape, values[::-1], inner))
    if wraps[-1] == "runs":
        ends = [place + 1 for place in range(count) if place + 1 == count or values[place] != values[place + 1]]
        runs = _wrapped(shape, [values[end - 1] for end in ends], inner)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), runs)
    stored = _wrapped(shape, values, inner)
    return pa.ExtensionArray.from_storage(OfAProgram(stored.type), stored)


def _leaf(shape: Shape, values: list[Any]) -> pa.Array:
    match shape.layouts[0]:
        case "large":
            return pa.array(values, pa.large_string() if shape.type == pa.string() else pa.large_binary())
        case "view":
            return pa.array(values, pa.string_view() if shape.type == pa.string() else pa.binary_view())
        case "uuid":
            stored = pa.array([None if value is None else UUID(value).bytes for value in values], pa.binary(16))
            return pa.ExtensionArray.from_storage(pa.uuid(), stored)
        case "json":
            return pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), pa.array(values, pa.string_view()))
        case "bool8":
            return pa.ExtensionArray.from_storage(
                pa.bool8(), pa.array([None if v is None else 3 * v for v in values], pa.int8())
            )
    return pa.array(values, shape.type)


def _list(shape: Shape, values: list[Any]) -> pa.Array:
    (child,) = shape.children
    junk: list[Any] = [None, None]
    stored = [junk if value is None else value for value in values]
    elements = array_of(child, [element for value in stored for element in value])
    mask, ends = _mask(values), np.cumsum([0, *map(len, stored)])
    match shape.layouts[0]:
        case "fixed":
            return pa.FixedSizeListArray.from_arrays(elements, 2, mask=mask)
        case "list" | "large_list":
            kind = pa.ListArray if shape.layouts[0] == "list" else pa.LargeListArray
            return kind.from_arrays(
                pa.array(ends, pa.int32() if kind is pa.ListArray else pa.int64()), elements, mask=mask
            )
    view, number = (
        (pa.ListViewArray, pa.int32()) if shape.layouts[0] == "list_view" else (pa.LargeListViewArray, pa.int64())
    )
    return view.from_arrays(pa.array(ends[:-1], number), pa.array(np.diff(ends), number), elements, mask=mask)


def _struct(shape: Shape, values: list[Any]) -> pa.Array:
    names = [f"f{place}" for place in range(len(shape.children))]
    columns = [
        array_of(child, [None if v is None else v[name] for v in values])
        for name, child in zip(names, shape.children, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, names, mask=_mask(values))


def _map(shape: Shape, values: list[Any]) -> pa.Array:
    stored = [value or [] for value in values]
    keys, items = (
        array_of(child, [entry[place] for value in stored for entry in value])
        for place, child in enumerate(shape.children)
    )
    return pa.MapArray.from_arrays(
        pa.array(np.cumsum([0, *map(len, stored)]), pa.int32()), keys, items, mask=_mask(values)
    )


def _mask(values: list[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())
