"""The names of types in files of Iceberg's format version 3, where PyIceberg has other ones.

It does not know the type variant. In its schemas its type `unknown` stands for it: that of columns that are always
null, which a Delta table with Iceberg compatibility does not have. The reference systems of geometries and geographies
it writes, and wants, in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_STAND_IN, _VARIANT = "unknown", "variant"
_QUOTED = re.compile(r"geo(?:metry|graphy)\('.*'\)")
_BARE = re.compile(r"(geometry|geography)\(([^',]+)(?:, *(\w+))?\)")

# What a schema, a field, a list and a map call the types inside them.
_INSIDE = ("type", "element", "key", "value")


def to_file(text: str) -> str:
    """JSON text of PyIceberg's, of a schema or a metadata file, as it is in files."""
    return _with_types(text, (_STAND_IN, "geo"), _in_file)


def from_file(text: str) -> str:
    """The text of a metadata file as PyIceberg reads it."""
    return _with_types(text, (_VARIANT, "geo"), _in_memory)


def _in_file(name: str) -> str:
    if _QUOTED.fullmatch(name):
        return name.replace("'", "")
    return _VARIANT if name == _STAND_IN else name


def _in_memory(name: str) -> str:
    if bare := _BARE.fullmatch(name):
        quoted = ", ".join(f"'{part}'" for part in bare.groups()[1:] if part is not None)
        return f"{bare[1]}({quoted})"
    return _STAND_IN if name == _VARIANT else name


def _with_types(text: str, begins: tuple[str, ...], change: Callable[[str], str]) -> str:
    """The text with other names of types.

    Args:
        begins: how the names begin that change: most texts have none.
    """
    if not any(f'"{begin}' in text for begin in begins):
        return text
    content = json.loads(text)
    for schema in content.get("schemas", [content]):
        _replace(schema, change)
    return json.dumps(content)


def _replace(node: dict[str, Any], change: Callable[[str], str]) -> None:
    for name in _INSIDE:
        inner = node.get(name)
        if isinstance(inner, dict):
            _replace(inner, change)
        elif isinstance(inner, str):
            node[name] = change(inner)
    for field in node.get("fields", ()):
        _replace(field, change)
