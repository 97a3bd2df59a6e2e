"""What CLONE copies, besides Delta tables: a table of another format, as if its files were a version of a Delta table.

Such a version has no number, and its log is never written: a clone takes its files, schema and partitions from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tahoe.errors import CloneIncompatibleSourceError, CloneNestedError, InvalidTimeTravelError
from tahoe.protocol.log.actions import Add, Metadata, Protocol
from tahoe.table.adoption.convert import ConvertRequest, survey
from tahoe.table.adoption.convert_footers import Examiner, examined_in_threads
from tahoe.table.log.file_entries import to_table
from tahoe.table.log.file_parts import MemoryPart
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader

# How the history numbers the version of a source that has no versions of Delta, as the reference does.
NO_VERSION = -1


@dataclass(frozen=True, kw_only=True)
class ForeignSource(ABC):
    """A table of another format.

    Attributes:
        table: its place.
        name: how the history names it.
    """

    table: TableReader
    name: str

    @property
    def url(self) -> str:
        return self.table.url

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Its files, schema and partitions, as they are now.

        Raises:
            CloneIncompatibleSourceError: a Delta table cannot have its files.
        """

    def check_clone(self, target: str, *, travels: bool) -> None:
        """Refuse a clone before any work.

        Args:
            target: the url of the clone.
            travels: whether a version or a time of the source is asked for.

        Raises:
            InvalidTimeTravelError, CloneNestedError
        """
        source = self.url
        if travels:
            raise InvalidTimeTravelError(
                table=source, detail=f"{self.name} is not a Delta table, so time travel does not apply"
            )
        if f"{target}/".startswith(f"{source}/"):
            raise CloneNestedError(table=target, relation="it is inside", other=source)
        if source.startswith(f"{target}/"):
            raise CloneNestedError(table=target, relation="in its folder is", other=source)

    def version_of(self, protocol: Protocol, metadata: Metadata, adds: Sequence[Add]) -> Snapshot:
        """The version that these files are."""
        return Snapshot(
            log=self.table.log,
            version=NO_VERSION,
            protocol=protocol,
            metadata=metadata,
            txns={},
            domains={},
            live=LiveFiles([MemoryPart(to_table(adds))]),
            commit=None,
        )


@dataclass(frozen=True, kw_only=True)
class ParquetSource(ForeignSource):
    """A folder of Parquet files. It is examined as CONVERT TO DELTA does, and stays as it is.

    Attributes:
        request: which files, columns and partitions the table has.
        examiner: reads the footers.
    """

    request: ConvertRequest
    examiner: Examiner = examined_in_threads

    def snapshot(self) -> Snapshot:
        """Raises: also those of `tahoe.table.adoption.convert.survey`."""
        if self.table.exists():
            detail = "it is a Delta table, whose files need not all belong to its rows"
            raise CloneIncompatibleSourceError(table=self.name, detail=detail, remedy=f"Clone delta.`{self.url}`.")
        found = survey(self.table, self.request, examiner=self.examiner)
        return self.version_of(found.protocol, found.metadata, found.adds)
