"""Definitions of Bloom filters: for which columns new data files carry Parquet's own, as the table property
`tahoe.bloomFilters` says.

    id (fpp = 0.01, numItems = 1000000), device.serial      the property, as users see it and may set it

A filter tells for a value whether a row group may have it. Any reader of Parquet may use the filters, and none needs
to: they belong to files, not to the protocol of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tahoe.protocol.types.names import dotted, parse_column_list

Path: TypeAlias = tuple[str, ...]

# The share of values that a file does not have and for which its filter says that it may have them.
FPP = 0.01

_ENTRY = re.compile(r"\s*((?:`(?:[^`]|``)+`|[^`(),])+?)\s*(?:\(([^()]*)\))?\s*(,|$)")
_OPTION = re.compile(r"\s*(\w+)\s*=?\s*'?([^\s',]+)'?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter:
    """The definition of the filters of one column.

    Attributes:
        path: of the column, by logical names.
        fpp: the probability of a false positive, between 0 and 1.
        num_items: how many different values a row group has at most; None if each file's number of rows says it.
    """

    path: Path
    fpp: float = FPP
    num_items: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.fpp < 1 or (self.num_items is not None and self.num_items < 1):
            raise ValueError(f"{self.fpp}, {self.num_items}")

    def __str__(self) -> str:
        options = {"fpp": None if self.fpp == FPP else repr(self.fpp), "numItems": self.num_items}
        given = ", ".join(f"{name} = {value}" for name, value in options.items() if value is not None)
        return dotted(self.path) + (f" ({given})" if given else "")


OPTIONS = ("fpp", "numItems")


def bloom_filter(path: Path, options: Iterable[tuple[str, str]]) -> BloomFilter:
    """A definition with options by case-insensitive name.

    Raises:
        ValueError: an unknown option, one that is given twice, or an invalid value; the text says which.
    """
    values: dict[str, str] = {}
    for key, value in options:
        name = next((name for name in OPTIONS if name.lower() == key.lower()), None)
        if name is None:
            raise ValueError(f"there is no option {key}; there are {' and '.join(OPTIONS)}")
        if name in values:
            raise ValueError(f"{name} is given twice")
        values[name] = value
    try:
        items = values.get("numItems")
        return BloomFilter(
            path=path, fpp=float(values.get("fpp", FPP)), num_items=None if items is None else int(items)
        )
    except ValueError:
        text = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise ValueError(
            f"fpp is a number between 0 and 1, and numItems an integer of at least 1, but found {text}"
        ) from None


def parse_bloom_filters(text: str) -> tuple[BloomFilter, ...]:
    """The definitions in a text as in the module's first lines.

    Raises:
        ValueError: it is not such a text, or names a column twice.
    """
    found: list[BloomFilter] = []
    position = 0
    while position < len(text):
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise ValueError(text)
        (path,) = parse_column_list(entry[1])
        found.append(bloom_filter(path, _options(entry[2] or "")))
        position = entry.end()
    if text.rstrip().endswith(",") or len({_folded(definition.path) for definition in found}) < len(found):
        raise ValueError(text)
    return tuple(found)


def _options(text: str) -> list[tuple[str, str]]:
    found = []
    for part in text.split(",") if text.strip() else ():
        option = _OPTION.fullmatch(part)
        if option is None:
            raise ValueError(text)
        found.append((option[1], option[2]))
    return found


def encode_bloom_filters(definitions: Iterable[BloomFilter]) -> str:
    return ", ".join(map(str, definitions))


# --- changes of columns


def moved(definitions: Iterable[BloomFilter], path: Path, to: Path | None) -> tuple[BloomFilter, ...]:
    """The definitions after a column was renamed, or dropped if `to` is None."""
    found = []
    for definition in definitions:
        if _folded(definition.path[: len(path)]) != _folded(path):
            found.append(definition)
        elif to is not None:
            found.append(replace(definition, path=(*to, *definition.path[len(path) :])))
    return tuple(found)


def without(definitions: Iterable[BloomFilter], paths: Iterable[Path]) -> tuple[BloomFilter, ...]:
    """The definitions without those of some columns."""
    gone = {_folded(path) for path in paths}
    return tuple(definition for definition in definitions if _folded(definition.path) not in gone)


def _folded(path: Path) -> Path:
    return tuple(name.lower() for name in path)
