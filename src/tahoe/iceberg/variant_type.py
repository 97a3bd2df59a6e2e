"""The type variant of Iceberg's format version 3, which PyIceberg does not know.

In PyIceberg's schemas its type `unknown` stands for it: that of columns that are always null, which a Delta table with
Iceberg compatibility does not have. In files it is what it is.
"""

from __future__ import annotations

import json
from typing import Any

_STAND_IN, _VARIANT = "unknown", "variant"

# What a schema, a field, a list and a map call the types inside them.
_INSIDE = ("type", "element", "key", "value")


def to_file(text: str) -> str:
    """JSON text of PyIceberg's, of a schema or a metadata file, as it is in files."""
    return _with_types(text, _STAND_IN, _VARIANT)


def from_file(text: str) -> str:
    """The text of a metadata file as PyIceberg reads it."""
    return _with_types(text, _VARIANT, _STAND_IN)


def _with_types(text: str, before: str, after: str) -> str:
    if f'"{before}"' not in text:
        return text
    content = json.loads(text)
    for schema in content.get("schemas", [content]):
        _replace(schema, before, after)
    return json.dumps(content)


def _replace(node: dict[str, Any], before: str, after: str) -> None:
    for name in _INSIDE:
        inner = node.get(name)
        if isinstance(inner, dict):
            _replace(inner, before, after)
        elif inner == before:
            node[name] = after
    for field in node.get("fields", ()):
        _replace(field, before, after)
