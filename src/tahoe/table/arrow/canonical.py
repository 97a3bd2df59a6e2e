"""Arrow data in its canonical form: one Arrow type for each kind of values.

Arrow has several layouts for the same values: text with 32-bit or 64-bit offsets or as views, dictionaries, runs, five
kinds of lists, and extension types over any of these. Its functions do not support all of them at every depth. Data is
converted once, where it comes in, so that the other modules know `string`, `binary`, `list`, `map`, `struct` and
fixed-width types only. Knows nothing of Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_FLAT: Mapping[pa.DataType, pa.DataType] = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}

# Extension types whose storage does not tell the value: a period without its frequency, or bytes that only their
# producer can read.
_OPAQUE = frozenset({"pandas.period", "arrow.opaque"})


def _as_uuid_texts(storage: pa.Array) -> pa.Array:
    return pa.array([None if value is None else str(UUID(bytes=value)) for value in storage.to_pylist()], pa.string())


# Extension types whose values are not those of their storage.
_MEANINGS: Mapping[str, tuple[pa.DataType, Callable[[pa.Array], pa.Array]]] = {
    "arrow.uuid": (pa.string(), _as_uuid_texts),
    "arrow.bool8": (pa.bool_(), lambda storage: storage.cast(pa.bool_())),
}


def canonical_type(kind: pa.DataType) -> pa.DataType:
    """The canonical type for the values of a type; the type itself if its values cannot be represented otherwise."""
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name in _OPAQUE:
            return kind
        return (
            _MEANINGS[kind.extension_name][0] if kind.extension_name in _MEANINGS else canonical_type(kind.storage_type)
        )
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return canonical_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([_canonical_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_canonical_field(kind.key_field), _canonical_field(kind.item_field))
    if _is_list(kind):
        return pa.list_(_canonical_field(kind.value_field))
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else _FLAT.get(kind, kind)


def _canonical_field(field: pa.Field) -> pa.Field:
    return field.with_type(canonical_type(field.type))


def _is_list(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(test(kind) for test in tests)


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_canonical_field(field) for field in schema], schema.metadata)


def canonical_table(rows: pa.Table) -> pa.Table:
    """The same rows, with all columns in their canonical form.

    Raises:
        pyarrow.ArrowException: the values of a chunk do not fit into one array; fewer rows may fit.
    """
    schema = canonical_schema(rows.schema)
    if schema.equals(rows.schema):
        return rows
    columns = [
        pa.chunked_array([canonical_array(chunk) for chunk in column.chunks], type=field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def canonical_array(values: pa.Array) -> pa.Array:
    """The same values in their canonical form. Values that have it already are returned as they are.

    Raises:
        pyarrow.ArrowException: they do not fit into one array; fewer values may fit.
    """
    kind, wanted = values.type, canonical_type(values.type)
    if kind.equals(wanted):
        return values
    if isinstance(kind, pa.BaseExtensionType):
        stored = values.storage
        return (
            _MEANINGS[kind.extension_name][1](stored) if kind.extension_name in _MEANINGS else canonical_array(stored)
        )
    if pa.types.is_dictionary(kind):
        return canonical_array(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        return canonical_array(values.values).take(pa.array(_runs(values)))
    if pa.types.is_struct(kind):
        children = [canonical_array(values.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())
    if pa.types.is_map(kind):
        offsets, (keys, items) = _offsets_and_values(values)
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=values.is_null())
    if _is_list(kind):
        offsets, (elements,) = _offsets_and_values(values)
        return pa.ListArray.from_arrays(offsets, elements, type=wanted, mask=values.is_null())
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _rebased(values).cast(wanted)
    return values.cast(wanted)


def _rebased(values: pa.Array) -> pa.Array:
    """The same texts or bytes, with offsets from 0 if those of a slice are beyond 32 bits: Arrow casts by the offsets,
    not by the size.
    """
    _, offsets, _ = values.buffers()
    if offsets is None or not len(values):
        return values
    first, stop = np.frombuffer(offsets, np.int64)[[values.offset, values.offset + len(values)]].tolist()
    return values.take(pa.array(np.arange(len(values)))) if stop >= 1 << 31 > stop - first else values


def _runs(values: pa.Array) -> npt.NDArray[np.int64]:
    """For each value the number of its run."""
    ends = np.clip(np.asarray(values.run_ends).astype(np.int64) - values.offset, 0, len(values))
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


def _offsets_and_values(lists: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """Where each list or map begins, and the end of the last; and their elements, or keys and values, in canonical
    form.
    """
    starts, ends = _ranges(lists)
    found = [canonical_array(values) for values in _inside(lists)]
    if (starts[1:] == ends[:-1]).all():
        return pa.array(np.append(starts, ends[-1:]) - starts[:1] if len(starts) else [0], pa.int32()), found
    sizes = ends - starts
    offsets = np.append(0, np.cumsum(sizes))
    places = pa.array(np.arange(offsets[-1]) + np.repeat(starts - starts.min() - offsets[:-1], sizes))
    return pa.array(offsets, pa.int32()), [values.take(places) for values in found]


def _inside(lists: pa.Array) -> list[pa.Array]:
    """The elements of lists, or the keys and values of maps: from the first that belongs to one, to the last."""
    starts, ends = _ranges(lists)
    first, stop = (int(starts.min()), int(ends.max())) if len(starts) else (0, 0)
    stored = (lists.keys, lists.items) if pa.types.is_map(lists.type) else (lists.values,)
    return [values.slice(first, stop - first) for values in stored]


def _ranges(lists: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each list begins and ends. Nulls may have a range too."""
    kind = lists.type
    if pa.types.is_fixed_size_list(kind):
        starts = (np.arange(len(lists), dtype=np.int64) + lists.offset) * kind.list_size
        return starts, starts + kind.list_size
    starts = np.asarray(lists.offsets).astype(np.int64)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return starts, starts + np.asarray(lists.sizes)
    return starts[:-1], starts[1:]


def decoded_bytes(rows: pa.Table) -> float:
    """About how many bytes the dictionaries and runs of rows become as values."""
    return sum(_decoded_bytes(chunk) for column in rows.columns for chunk in column.chunks)


def _decoded_bytes(values: pa.Array) -> float:
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _decoded_bytes(values.storage)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        distinct = values.dictionary if pa.types.is_dictionary(kind) else values.values
        return float(len(values) * max(distinct.nbytes, _decoded_bytes(distinct)) / max(1, len(distinct)))
    if pa.types.is_struct(kind):
        return sum(_decoded_bytes(values.field(number)) for number in range(kind.num_fields))
    return sum(map(_decoded_bytes, _inside(values))) if _is_list(kind) or pa.types.is_map(kind) else 0
