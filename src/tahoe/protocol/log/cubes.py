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
from collections.abc import Iterable, Mapping, Sequence

from tahoe.protocol.log.actions import Add

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
    """The tags of a file that ZORDER BY has written; see `is_ordered`."""
    return {**cube_tags(cube, columns), TARGET_SIZE: str(target_bytes)}


def files_to_cluster(
    files: Iterable[Add], columns: Sequence[str], *, full: bool, closed_bytes: int = CLOSED_BYTES
) -> list[Add]:
    """The files that OPTIMIZE of a clustered table lays out together as a new cube; none if nothing was added since the
    last time.

    What was added is files without a cube, and cubes that clustering on write has made.

    Files of other clustering columns, or of another provider, are left alone unless `full`. Files that ZORDER BY has
    written by other columns, before the table was clustered, count as added.
    """
    found = list(files)
    cubes = [_cube(file, columns) for file in found]
    if full:
        return [] if len(set(cubes)) == 1 and cubes[0] else found
    sizes: dict[str, int] = {}
    for file, cube in zip(found, cubes, strict=True):
        if cube is not None:
            sizes[cube] = sizes.get(cube, 0) + file.size_bytes
    added = sizes.pop("", 0)
    joined = {"", *joining_cubes(added, sizes, closed_bytes=closed_bytes)}
    return [file for file, cube in zip(found, cubes, strict=True) if cube in joined]


def _cube(file: Add, columns: Sequence[str]) -> str | None:
    """The id of a file's cube; empty if it is in none; None if it was laid out by other columns or by somebody else."""
    if file.clustering_provider not in (None, PROVIDER):
        return None
    tags = file.tags or {}
    cube, by = tags.get(CUBE_ID), tags.get(CUBE_COLUMNS)
    if cube and by == cube_tags(cube, columns)[CUBE_COLUMNS]:
        return cube
    is_of_others = bool(cube) and by is not None and file.clustering_provider == PROVIDER
    return None if is_of_others else ""


def is_ordered(files: Iterable[Add], columns: Sequence[str], target_bytes: int) -> bool:
    """Whether ZORDER BY has made these files, together, by these columns and for this target size, so that it would
    change nothing.
    """
    found = [file.tags or {} for file in files]
    cube = (found[0].get(CUBE_ID) if found else None) or ""
    wanted = zorder_tags(cube, columns, target_bytes)
    return bool(cube) and all(wanted.items() <= tags.items() for tags in found)


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
