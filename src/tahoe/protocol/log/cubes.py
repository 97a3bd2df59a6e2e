"""Cubes: files of a clustered table that were laid out together, and which of them are laid out again when rows were
added.

The specification names neither. Tags of data files say what the reference reads and writes: the id of the cube, and its
columns.

Laying out everything after each append tells files apart best, and rewrites the table each time. So cubes are merged as
in a log-structured merge tree: starting with the new files, or with the smallest cube, cubes are added, smallest first,
up to one that is much larger than the sum of those before. A byte is rewritten about once each time that its cube
doubles. What remains are few cubes, and most rows are in the largest ones. A query reads a larger share of few files
than of many. So a cube has as many files as the table will have when it has grown, if that makes them not too small.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

CUBE_ID = "ZCUBE_ID"
CUBE_COLUMNS = "ZCUBE_ZORDER_BY"
TARGET_SIZE = "OPTIMIZE_TARGET_SIZE"
PROVIDER = "liquid"

# As in the reference: cubes of this size have so many files that a larger one would hardly tell them apart better.
CLOSED_BYTES = 100 << 30

# A cube takes part if it is at most so many times as large as what takes part without it.
_JOIN_RATIO = 1.5

# A cube has so many times the files that the target size asks for: at most, and for the whole table.
_FINER_MAX = 4
_GROWTH = 1.5


def cube_tags(cube: str, columns: Sequence[str]) -> dict[str, str]:
    """The tags of a file in a cube.

    Args:
        columns: the clustering columns by their logical names, as users write them.
    """
    return {CUBE_ID: cube, CUBE_COLUMNS: json.dumps(list(columns), separators=(",", ":"))}


def zorder_tags(cube: str, columns: Sequence[str], target_bytes: int) -> dict[str, str]:
    """The tags of a file that ZORDER BY has written; see `ordered_cube`."""
    return {**cube_tags(cube, columns), TARGET_SIZE: str(target_bytes)}


def cube_of(tags: Mapping[str, str | None], provider: str | None, columns: Sequence[str]) -> str | None:
    """The id of a file's cube; empty if it is in none; None if it was laid out by other columns or by somebody else.

    Files that ZORDER BY has written by other columns, before the table was clustered, are in none.
    """
    if provider not in (None, PROVIDER):
        return None
    cube, by = tags.get(CUBE_ID), tags.get(CUBE_COLUMNS)
    if cube and by == cube_tags(cube, columns)[CUBE_COLUMNS]:
        return cube
    is_of_others = bool(cube) and by is not None and provider == PROVIDER
    return None if is_of_others else ""


def ordered_cube(tags: Mapping[str, str | None], columns: Sequence[str], target_bytes: int) -> str:
    """The id of the cube in which ZORDER BY has laid out a file by these columns and for this target size; empty if it
    is in none.
    """
    cube = tags.get(CUBE_ID) or ""
    return cube if zorder_tags(cube, columns, target_bytes).items() <= tags.items() else ""


def cubes_to_lay_out(
    sizes: Mapping[str | None, int], *, full: bool, closed_bytes: int = CLOSED_BYTES
) -> set[str | None]:
    """The cubes of a partition whose files become a new cube; none if nothing was added since the last time.

    What was added is files without a cube, and cubes that clustering on write has made. Files of other clustering
    columns, or of another provider, are left alone unless `full`.

    Args:
        sizes: the bytes of the files in each cube, by what `cube_of` or `ordered_cube` tells of them.
        full: whether all files are laid out, unless they are one cube.
    """
    if full:
        return set() if len(sizes) == 1 and all(sizes) else set(sizes)
    cubes = {cube: size for cube, size in sizes.items() if cube}
    return {"", *joining_cubes(sizes.get("", 0), cubes, closed_bytes=closed_bytes)}


def joining_cubes(added: int, cubes: Mapping[str, int], *, closed_bytes: int = CLOSED_BYTES) -> list[str]:
    """The cubes, given by their bytes, that are laid out again together with so many new bytes; never one alone."""
    joining: list[str] = []
    together = added
    for cube, size in sorted(cubes.items(), key=lambda item: (item[1], item[0])):
        if size >= closed_bytes or (together and size > together * _JOIN_RATIO):
            break
        joining.append(cube)
        together += size
    return joining if added or len(joining) > 1 else []


def cube_leaves(cube_bytes: int, table_bytes: int, target_bytes: int) -> int:
    """The number of files of a new cube if cubes are merged; FULL makes files of the target size."""
    needed, table = cube_bytes / target_bytes, table_bytes / target_bytes
    return max(math.ceil(needed), int(min(needed * _FINER_MAX, table * _GROWTH)), 1)
