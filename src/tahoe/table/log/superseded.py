"""Files that newer actions name, so that older parts of a log drop them.

Protocol: "Action Reconciliation". A file is named by its canonical path and the unique id of its deletion vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tahoe._cached import cached_property
from tahoe.protocol.log.replay import FileKey
from tahoe.protocol.types.json_text import is_text
from tahoe.table.arrow.chunks import taken

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Superseded:
    """Files that newer actions name.

    Attributes:
        keys: of the files.
        canonical: maps all spellings of a file's path to one.
    """

    keys: Set[FileKey]
    canonical: Callable[[str], str]

    def and_also(self, other: Superseded | None) -> Superseded:
        return self if other is None else Superseded(self.keys | other.keys, self.canonical)

    @cached_property
    def _names(self) -> pa.Array:
        # a path that is not valid text has escapes in the log, so it is `ambiguous`
        return pa.array(sorted({path for path, _ in self.keys if is_text(path)}), pa.string())

    def positions(
        self, paths: pa.ChunkedArray, ambiguous: pa.ChunkedArray, *, read_vectors: Callable[[], pa.ChunkedArray]
    ) -> Positions:
        """The positions of these files among others, ascending.

        Args:
            ambiguous: which paths can be spelled in several ways.
            read_vectors: the deletion vectors; called only if needed.
        """
        suspects = pc.or_(pc.is_in(paths, value_set=self._names), ambiguous)
        candidates = pc.indices_nonzero(suspects)
        if not len(candidates):
            return np.zeros(0, np.int64)
        descriptors = taken(read_vectors(), candidates).to_pylist()
        found = zip(candidates.to_pylist(), taken(paths, candidates).to_pylist(), descriptors, strict=True)
        return np.array(
            [n for n, path, vector in found if (self.canonical(path), _unique_id(vector)) in self.keys], np.int64
        )


def _unique_id(vector: Mapping[str, Any] | None) -> str | None:
    if vector is None:
        return None
    base = f"{vector['storageType']}{vector['pathOrInlineDv']}"
    return base if vector["offset"] is None else f"{base}@{vector['offset']}"
