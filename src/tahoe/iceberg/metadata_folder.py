"""The folder `metadata` of a table: which metadata file is the newest, and how files get there.

Iceberg's specification: "File System Tables". The metadata file of Delta's version n is `v<n>.metadata.json`. It is put
only if it is absent, so that of two converters one wins; `version-hint.text` names the newest one for readers that
cannot list the folder. All other files have unique names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO

from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import IcebergBaseModel

from tahoe.iceberg import type_names
from tahoe.storage.env import physical_url
from tahoe.table.adoption.iceberg_source import METADATA_FILE, StoredInput
from tahoe.table.commit.other_formats import METADATA_FOLDER as FOLDER
from tahoe.table.log.delta_log import Log

_HINT = f"{FOLDER}/version-hint.text"

# The files of snapshots, which have unique names.
MANIFEST, LIST, VECTORS = "m0.avro", "snap-{}.avro", "deletes.puffin"
_UNIQUE_NAMES = re.compile(rf"{FOLDER}/[^/]+-(m0\.avro|snap-\d+\.avro|deletes\.puffin)")

# Metadata files begin so; hints and files of snapshots are before or after them in a listing.
_METADATA_START = f"{FOLDER}/v"

DELTA_VERSION = "delta-version"
DELTA_TIMESTAMP = "delta-timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A metadata file, and the version of the Delta table that it describes; None for one that tahoe did not write."""

    key: str
    metadata: TableMetadata
    version: int | None


class MetadataFolder:
    """The folder of one table."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._store = log.env.store
        self.location = physical_url(log.env.store)

    def newest(self) -> Converted | None:
        """The metadata file with the highest number; None without any."""
        numbered = self._numbered()
        if not numbered:
            return None
        key = numbered[max(numbered)]
        metadata = self._read(key)
        told = metadata.properties.get(DELTA_VERSION, "")
        return Converted(key=key, metadata=metadata, version=int(told) if told.isdigit() else None)

    def _read(self, key: str) -> TableMetadata:
        file = self.input(key)
        if ".gz" in key:  # of another writer
            return FromInputFile.table_metadata(file)
        return TableMetadataUtil.parse_raw(type_names.from_file(file.open().read().decode()))

    def _numbered(self) -> dict[int, str]:
        """The metadata files, by their numbers. Those of other writers may be compressed."""
        listed = (info.key for info in self._store.list_from(FOLDER, _METADATA_START))
        found = ((key, METADATA_FILE.fullmatch(key.removeprefix(f"{FOLDER}/"))) for key in listed)
        return {int(match["number"]): key for key, match in found if match is not None}

    def input(self, key: str) -> StoredInput:
        return StoredInput(self.log, f"{self._store.url}/{key}")

    def read(self, url: str, offset: int, length: int) -> bytes:
        """A part of a file by its location."""
        return self._store.get_range(self.key(url), offset, length)

    def url(self, key: str) -> str:
        """The location of a file, as Iceberg's readers open it."""
        return f"{self.location}/{key}"

    def key(self, url: str) -> str:
        """The key of a file by its location."""
        return url.removeprefix(f"{self.location}/").removeprefix(f"{self._store.url}/")

    def output(self, suffix: str) -> Output:
        """A new file for manifests or deletion vectors."""
        return Output(self.url(f"{FOLDER}/{self.log.env.new_id()}-{suffix}"))

    def put(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            self._store.put(self.key(output.location), output.content)

    def put_metadata(self, version: int, metadata: TableMetadata, *, replaces: bool = False) -> bool:
        """Put a metadata file and name it in the hint. False if another converter has put one for the version.

        Args:
            replaces: put it in any case.
        """
        content = encode_metadata(metadata)
        if replaces:
            self._store.put(_key(version), content)
        elif not self._store.put_if_absent(_key(version), content):
            return False
        self._hint(version)
        return True

    def _hint(self, version: int) -> None:
        """Name the newest metadata file; of several converters the slowest may be the last to do so."""
        newest = max([version, *self._numbered()])
        self._store.put(_HINT, str(newest).encode())

    def delete(self, keys: Iterable[str]) -> None:
        self._store.delete_many(list(keys))

    def clear(self) -> None:
        """Delete the metadata files, for a table that takes the place of another one."""
        self.delete([_HINT, *self._numbered().values()])

    def metadata_keys(self, before: int) -> list[str]:
        """The metadata files of versions before one."""
        return [key for number, key in self._numbered().items() if number < before]


def encode_metadata(metadata: TableMetadata) -> bytes:
    """The content of a metadata file. PyIceberg's class for version 3 of the format reads, but refuses to write."""
    text: str = IcebergBaseModel.model_dump_json(metadata)
    return type_names.to_file(text).encode()


def is_of_snapshot(key: str) -> bool:
    """Whether a file has the name of one that tahoe writes for snapshots."""
    return _UNIQUE_NAMES.fullmatch(key) is not None


def _key(version: int) -> str:
    return f"{_METADATA_START}{version}.metadata.json"


class Output:
    """What PyIceberg calls an output file, in memory."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.content = b""

    def create(self, overwrite: bool = False) -> _Stream:  # noqa: ARG002  PyIceberg's signature
        return _Stream(self)

    def __len__(self) -> int:
        return len(self.content)


class _Stream(BytesIO):
    """Gives its bytes to the file when it is closed."""

    def __init__(self, file: Output) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        if not self.closed:
            self._file.content = self.getvalue()
        super().close()
