"""What a version changes in an Iceberg table: data files, and the deletion vectors of data files.

A data file whose deletion vector changes is removed and added in the log; in Iceberg's metadata it stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.snapshots import Operation

from tahoe.iceberg.data_files import DataFiles, NewFile
from tahoe.protocol.log.actions import Add, Remove


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """What a snapshot changes.

    Attributes:
        added: data files.
        removed: the locations of data files.
        marked: the files that get a deletion vector, whether they are there already or are added.
        unmarked: the locations of data files whose deletion vectors go, because of another one, or with the file.
        returns: whether rows are there again that were deleted before, so that a vector of before must not apply.
    """

    operation: Operation
    added: Sequence[NewFile]
    removed: frozenset[str] = frozenset()
    marked: Sequence[Add] = ()
    unmarked: frozenset[str] = frozenset()
    returns: bool = False

    @classmethod
    def of_version(cls, files: DataFiles, version: int, adds: Sequence[Add], removes: Sequence[Remove]) -> FileChanges:
        """What a commit changes."""
        before = {files.path(remove.path): remove for remove in removes}
        after = {files.path(add.path): add for add in adds}
        added = [files.new(add) for path, add in after.items() if path not in before]
        marked = [add for add in adds if add.deletion_vector is not None]
        removed = before.keys() - after.keys()
        shrinks = any(_deleted(remove) > _deleted(after.get(path, remove)) for path, remove in before.items())
        is_moved = not any(add.data_change for add in adds) and not any(remove.data_change for remove in removes)
        return cls(
            operation=_operation(bool(added), bool(removed or marked), is_moved=is_moved, shrinks=shrinks),
            added=added,
            removed=frozenset(removed),
            marked=marked,
            unmarked=frozenset(path for path, remove in before.items() if remove.deletion_vector is not None),
            returns=shrinks or any(_is_older(new, version) for new in added),
        )

    @classmethod
    def of_all(cls, files: DataFiles, adds: Sequence[Add], *, is_anew: bool) -> FileChanges:
        """All files of a version instead of those that were there.

        Args:
            is_anew: whether the table has snapshots.
        """
        return cls(
            operation=Operation.OVERWRITE if is_anew else Operation.APPEND,
            added=[files.new(add) for add in adds],
            marked=[add for add in adds if add.deletion_vector is not None],
        )


def _deleted(file: Add | Remove) -> int:
    return 0 if file.deletion_vector is None else file.deletion_vector.cardinality


def _is_older(new: NewFile, version: int) -> bool:
    """Whether a file was in the table before: its rows are older than the version which adds it."""
    return new.sequence_number is not None and new.sequence_number < version


def _operation(adds: bool, deletes: bool, *, is_moved: bool, shrinks: bool) -> Operation:
    if is_moved:
        return Operation.REPLACE
    if deletes and not (adds or shrinks):
        return Operation.DELETE
    return Operation.OVERWRITE if deletes or shrinks else Operation.APPEND
