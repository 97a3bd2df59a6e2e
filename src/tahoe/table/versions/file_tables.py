"""Files of any versions of a table as a table of their own, in memory, so that everything that works on tables works on
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tahoe.protocol.log.actions import Add, Metadata, Protocol
from tahoe.table.log.file_entries import to_table
from tahoe.table.log.file_parts import MemoryPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.snapshot import Snapshot

_VECTORS = "deletionVectors"


def table_of(files: Sequence[Add], like: Snapshot, version: int, metadata: Metadata) -> Snapshot:
    """Files as a table. A file may be in it several times, with different deletion vectors.

    Args:
        like: a version of the table that the files are from. It may have lost its support of deletion vectors since;
            the files may not.
        metadata: with an id of its own, because caches identify a table's version by id and version.
    """
    protocol = protocol_for_files(like.protocol, has_vectors=any(file.deletion_vector is not None for file in files))
    return Snapshot(
        log=like.log,
        version=version,
        protocol=protocol,
        metadata=metadata,
        txns={},
        domains={},
        live=LiveFiles([MemoryPart(to_table(files))]),
        commit=None,
    )


def protocol_for_files(protocol: Protocol, *, has_vectors: bool) -> Protocol:
    """A protocol with which files of other versions can be read: it also has deletion vectors if they do."""
    if not has_vectors or _VECTORS in (protocol.reader_features or ()):
        return protocol
    return protocol.replace(reader_version=3, reader_features=(protocol.reader_features or frozenset()) | {_VECTORS})
