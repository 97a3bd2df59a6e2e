"""The log in which a stream tracks the schema of its table: numbered files in a folder, each of which is created
once.
"""

from __future__ import annotations

from dataclasses import replace

from tahoe.errors import SchemaLocationConflictError, SchemaLogOtherTableError
from tahoe.protocol.streams.tracked_schema import TrackedSchema, parse_entry
from tahoe.storage.env import Store


def schema_log_folder(location: str, table_id: str, tracking_id: str | None) -> str:
    """The url of a stream's log below the location that the user gave."""
    return f"{location.rstrip('/')}/_schema_log_{table_id}" + (f"_{tracking_id}" if tracking_id is not None else "")


class SchemaLog:
    """The log of one stream, as it was when it was opened, with what this object has added.

    Args:
        store: the log's folder.
        table: the url of the table, for errors.

    Raises:
        SchemaLogUnreadableError: the last entry cannot be read.
        SchemaLogOtherTableError: the log is of another table than the one with `table_id`.
    """

    def __init__(self, store: Store, table_id: str, table: str) -> None:
        self._store = store
        self._table = table
        names = [info.key for info in store.list_from("")]
        self._number = max((int(name) for name in names if name.isascii() and name.isdigit()), default=-1)
        self.current = self._read(self._number)
        if self.current is not None and self.current.table_id != table_id:
            raise SchemaLogOtherTableError(
                location=store.url, table=table, persistedId=self.current.table_id, tableId=table_id
            )

    @property
    def url(self) -> str:
        return self._store.url

    def _read(self, number: int) -> TrackedSchema | None:
        if number < 0:
            return None
        try:
            return parse_entry(self._store.get(str(number)), f"{self.url}/{number}")
        except FileNotFoundError:
            return None

    @property
    def _previous_number(self) -> int:
        known = None if self.current is None else self.current.previous
        return self._number - 1 if known is None else known

    def previous(self) -> TrackedSchema | None:
        """The entry with which the stream has read before the current one; None if there is none."""
        return self._read(self._previous_number)

    def add(self, entry: TrackedSchema, *, replaces: bool = False) -> None:
        """Add an entry, which becomes the current one.

        Args:
            replaces: the stream has read nothing with the current entry, so the entry before it remains the previous
                one.

        Raises:
            SchemaLocationConflictError: another stream has added one meanwhile.
        """
        if replaces and self.current is not None:
            entry = replace(entry, previous=self._previous_number)
        if entry == self.current:
            return
        name, data = str(self._number + 1), entry.to_bytes()
        if not self._store.put_if_absent(name, data) and self._store.get(name) != data:
            raise SchemaLocationConflictError(loc=self.url, table=self._table, detail=f"the file {name} exists")
        self._number, self.current = self._number + 1, entry

    def check_source(self, source_path: str) -> None:
        """
        Args:
            source_path: the folder of the source in the query's checkpoint.

        Raises:
            SchemaLocationConflictError: the log belongs to another source.
        """
        if self.current is not None and self.current.source_path != source_path:
            detail = f"it belongs to the source {self.current.source_path}, not to {source_path}"
            raise SchemaLocationConflictError(loc=self.url, table=self._table, detail=detail)
