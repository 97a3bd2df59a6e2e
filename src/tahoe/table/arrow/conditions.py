"""Conditions of `pyarrow.compute`: their values for rows, and what they consist of.

Arrow does not let Python look into an expression. So it is looked into as Arrow serialises it: a record batch with the
values, whose metadata has calls and columns in their order. What is serialised in an unknown way is not looked into.
Knows nothing of Delta tables.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.table.arrow.chunks import one_array


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A column, or a field of a struct, by its path."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A constant, in Python."""

    value: Any


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of one of Arrow's functions."""

    function: str
    arguments: tuple[Part, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


Part: TypeAlias = FieldRef | Scalar | FunctionCall

# Longer conditions, of about a hundred comparisons, are not looked into: their calls are as deep as they are long.
_WORDS_MAX = 600


def arrow_condition_values(condition: pc.Expression, rows: pa.Table) -> pa.Array:
    """The value of a condition for each row.

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError: it does not fit the columns.
    """
    from pyarrow import acero  # noqa: PLC0415 - it imports pandas, where that is installed, and few need it

    plan = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
        acero.Declaration("project", acero.ProjectNodeOptions([condition], ["found"])),
    ]
    found = one_array(acero.Declaration.from_sequence(plan).to_table(use_threads=False).column(0))
    return found if len(found) == rows.num_rows else pa.repeat(found[0], rows.num_rows)


def columns_in(condition: pc.Expression, names: Sequence[str]) -> list[str]:
    """The columns that a condition names; all whose names are in its text, if it cannot be looked into."""
    tree, text = tree_of(condition), str(condition)
    if tree is None:
        return [name for name in names if name in text]
    named = {path[0] for path in _references(tree)}
    return [name for name in names if name in named]


def _references(part: Part) -> Iterator[tuple[str, ...]]:
    match part:
        case FieldRef(path):
            yield path
        case FunctionCall(_, arguments):
            for argument in arguments:
                yield from _references(argument)


def tree_of(condition: pc.Expression) -> Part | None:
    """The calls, columns and literals of a condition; None if they are not known."""
    try:
        _, (serialised, *_) = condition.__reduce__()
        batch = pa.ipc.open_file(serialised).get_batch(0)
        words = deque(_metadata(batch.schema))
        return None if len(words) > _WORDS_MAX else _read(words, batch)
    except (pa.ArrowException, ValueError, LookupError, TypeError, OverflowError):
        return None


def _read(words: deque[tuple[str, str]], batch: pa.RecordBatch) -> Part:
    """The expression at the beginning of the metadata, which is taken away."""
    kind, text = words.popleft()
    if kind == "literal":
        return Scalar(batch.column(int(text))[0].as_py())
    if kind == "field_ref":
        return FieldRef((text,))
    if kind == "nested_field_ref":
        names = [words.popleft() for _ in range(int(text))]
        if all(of == "field_ref" for of, _ in names):
            return FieldRef(tuple(name for _, name in names))
    if kind != "call":
        raise ValueError(kind)
    arguments: list[Part] = []
    options: Mapping[str, Any] = {}
    while words[0] != ("end", text):
        if words[0][0] == "options":
            options = batch.column(int(words.popleft()[1]))[0].as_py()
        else:
            arguments.append(_read(words, batch))
    words.popleft()
    return FunctionCall(text, tuple(arguments), options)


class _ArrowSchema(ctypes.Structure):
    """The first members of `struct ArrowSchema` in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_void_p), ("name", ctypes.c_void_p), ("metadata", ctypes.c_void_p))


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The metadata of a schema in order, with keys that repeat. `schema.metadata` is a dictionary, which loses both."""
    capsule = schema.__arrow_c_schema__()  # it owns the memory
    address = _ArrowSchema.from_address(_pointer_of(capsule, b"arrow_schema")).metadata or 0

    def taken(size: int) -> bytes:
        nonlocal address
        found = ctypes.string_at(address, size)
        address += size
        return found

    def number() -> int:
        return int.from_bytes(taken(4), sys.byteorder)

    for _ in range(number() if address else 0):
        yield taken(number()).decode(), taken(number()).decode()
