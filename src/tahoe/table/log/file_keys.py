"""The keys by which files are reconciled, as columns: the canonical path and the id of the deletion vector.

Protocol: "Action Reconciliation", "Derived Fields" of deletion vectors. `protocol.replay.file_key` has the same for one
action.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.types.json_text import is_text
from tahoe.table.arrow.chunks import replaced
from tahoe.table.log.delta_log import Log
from tahoe.table.log.file_parts import AMBIGUOUS
from tahoe.table.log.live_files import LiveFiles


def canonical_paths(paths: pa.ChunkedArray, log: Log) -> pa.ChunkedArray:
    """The canonical spelling of each path."""
    odd = pc.match_substring_regex(paths, AMBIGUOUS)
    if not pc.any(odd).as_py():
        return paths
    return replaced(paths, odd, lambda path: spelled(path, log))


def spelled(path: str, log: Log) -> str:
    """The canonical spelling of a path; the path itself if the spelling is not valid text."""
    spelling = log.canonical(path)
    return spelling if is_text(spelling) else path


def vector_ids(vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    """The unique ids of deletion vectors; an empty text if there is no vector."""
    return pa.chunked_array([_vector_ids(chunk) for chunk in vectors.chunks], pa.string())


def _vector_ids(vectors: pa.StructArray) -> pa.Array:
    kind, path, offset = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset"))
    suffix = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return pc.fill_null(pc.binary_join_element_wise(kind, path, suffix, ""), "")


def file_keys(live: LiveFiles, log: Log) -> pa.ChunkedArray:
    """One text for each file: two entries with the same text are reconciled with each other."""
    paths = canonical_paths(live.column("path"), log)
    if not live.has_deletion_vectors:
        return pc.binary_join_element_wise(paths, "", "\0")
    return pc.binary_join_element_wise(paths, vector_ids(live.column("deletion_vector")), "\0")
