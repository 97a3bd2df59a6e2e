"""The metadata that says where a column's values come from, and how texts are compared: its keys, and the metadata of a
new column.

Protocol: "Generated Columns", "Default Columns", "Identity Columns", "Column Invariants"; the RFC "Collated String
Type".
"""

from collections.abc import Mapping, Sequence
from typing import Any

GENERATION_EXPRESSION = "delta.generationExpression"
CURRENT_DEFAULT = "CURRENT_DEFAULT"

# The value that Spark stores for rows written before the column was added. Delta does not use it: such rows are null.
EXISTS_DEFAULT = "EXISTS_DEFAULT"

IDENTITY = "delta.identity."
IDENTITY_START = IDENTITY + "start"
IDENTITY_STEP = IDENTITY + "step"
IDENTITY_HIGH_WATER_MARK = IDENTITY + "highWaterMark"
IDENTITY_EXPLICIT = IDENTITY + "allowExplicitInsert"

INVARIANTS = "delta.invariants"

# The collations of a column whose type is string, or has such elements, keys or values: by its name, and paths that
# begin with its name.
COLLATIONS = "__COLLATIONS"

_BINARY_COLLATION = "UTF8_BINARY"


def collations_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The collations of a column by which texts are compared in another way than by their bytes. Who provides them, as
    in `icu.UNICODE`, is left out.
    """
    collations = metadata.get(COLLATIONS)
    if not isinstance(collations, Mapping):
        return {}
    names = {path: str(collation).rpartition(".")[2].upper() for path, collation in collations.items()}
    return {path: name for path, name in names.items() if name != _BINARY_COLLATION}


def generated(expression: str) -> dict[str, Any]:
    """The metadata of a generated column."""
    return {GENERATION_EXPRESSION: expression}


def identity(start: int, step: int, *, allow_explicit_insert: bool) -> dict[str, Any]:
    """The metadata of an identity column without a high-water mark."""
    return {IDENTITY_START: start, IDENTITY_STEP: step, IDENTITY_EXPLICIT: allow_explicit_insert}


def with_collations_inside(
    metadata: Mapping[str, Any], path: Sequence[str], collations: Mapping[str, str] | None
) -> dict[str, Any]:
    """The metadata of a column whose part gets another type.

    Args:
        path: from the column to the element, key or value.
        collations: of the part's new type, by its name, and paths that begin with it.
    """
    part, kept = ".".join(path), metadata.get(COLLATIONS) or {}
    found = {key: name for key, name in kept.items() if key != part and not key.startswith(f"{part}.")}
    found |= {part + key.removeprefix(path[-1]): name for key, name in (collations or {}).items()}
    others = {key: value for key, value in metadata.items() if key != COLLATIONS}
    return {**others, COLLATIONS: found} if found else others


def with_name(metadata: Mapping[str, Any], name: str, new_name: str) -> dict[str, Any]:
    """The metadata of a column that gets another name."""
    collations = metadata.get(COLLATIONS)
    if not isinstance(collations, Mapping):
        return dict(metadata)
    renamed = {new_name + key.removeprefix(name): collation for key, collation in collations.items()}
    return {**metadata, COLLATIONS: renamed}
