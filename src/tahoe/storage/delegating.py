"""The base of the stores over another store: what they pass on to it as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from tahoe.errors import DeltaStorageError
from tahoe.storage.env import FileInfo, Store, Tree, branches


class DelegatingStore:
    """A `Store` without reading and creating files.

    Attributes:
        inner: the store below.
    """

    __slots__ = ()

    inner: Store

    @property
    def url(self) -> str:
        return self.inner.url

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        return self.inner.list_from(prefix, start_after)

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        return self.inner.walk(prefix)

    def tree(self) -> Tree:
        return self.inner.tree()

    def branches(self) -> Iterator[Tree]:
        return branches(self.inner)

    def head(self, key: str) -> FileInfo | None:
        return self.inner.head(key)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self.inner.put_if_absent(key, data)

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self.inner.put(key, data)

    def copy_from(self, source: Store, key: str, to: str) -> None:
        self.inner.copy_from(source.inner if isinstance(source, type(self)) else source, key, to)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        return self.inner.delete_many(keys)

    def remove_folders(self, keys: Iterable[str]) -> list[str]:
        return self.inner.remove_folders(keys)
