"""A store for file systems that only Hadoop can access: HDFS, viewfs, and every other scheme that the Hadoop
configuration has a class for.

A file is written to a temporary name in its final folder, synced to disk, and renamed without overwriting, which HDFS
does atomically: that is "Creation of New Log Entries", as the reference does it. Not every Hadoop file system has such
a rename: file systems whose rename is known to copy or to overwrite are refused.

Only the process that has started the JVM can use this store. Pickling keeps the url and the settings, but in another
process, such as Spark's Python workers, every request is refused.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, cast

from tahoe.errors import (
    AtomicCreateUnsupportedError,
    DeltaStorageError,
    NoGatewayError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.spark.jvm.gateway import JVM_ERRORS, Gateway, JavaObject, class_names, java_error, running_class
from tahoe.storage.env import (
    TEMPORARY_SUFFIX,
    FileInfo,
    FileReplacedError,
    Store,
    Tree,
    byte_order,
    copy_through,
    deepest_first,
    is_temporary,
)
from tahoe.storage.locations import join, normalise, scheme_of, spelled, split_url
from tahoe.storage.ranges import RangeFile
from tahoe.storage.schemes import LOCAL_SCHEME, is_known_scheme
from tahoe.storage.threads import in_pieces

# Data goes to the JVM in pieces of this size, because both processes hold several copies of a piece.
_PIECE_BYTES = 1 << 20

# So many files and folders of a long listing come at once: some megabytes, which cost more than the call for them.
_PAGE_ENTRIES = 10_000

# File systems in which two writers can rename to the same name and both succeed, with what their rename does.
_UNSAFE_RENAMES = {
    LOCAL_SCHEME: "replaces a file of that name",
    **dict.fromkeys(("bos", "cosn", "ks3", "obs", "oss", "swift"), "is a copy"),
}

_NO_ATOMIC_CREATE = frozenset(
    {"java.lang.UnsupportedOperationException", "org.apache.hadoop.fs.UnsupportedFileSystemException"}
)

# Exceptions, including their subclasses, after which the request certainly had no effect.
_REFUSALS = _NO_ATOMIC_CREATE | {
    "java.lang.IllegalArgumentException",
    "java.nio.file.AccessDeniedException",
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "org.apache.hadoop.fs.InvalidPathException",
    "org.apache.hadoop.fs.ParentNotDirectoryException",
    "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException",
    "org.apache.hadoop.hdfs.protocol.ClusterStorageCapacityExceededException",
    "org.apache.hadoop.hdfs.protocol.QuotaExceededException",
    "org.apache.hadoop.security.AccessControlException",
}

_MISSING = "java.io.FileNotFoundException"


def qualified_url(gateway: Gateway, location: str) -> str:
    """The url of a location in this session; a path without a scheme is in Hadoop's default file system.

    Spark reads data files by this url, compares it with the urls of cached plans, and stores it in its catalog.

    Raises:
        UnsupportedStorageError: neither tahoe nor the session's Hadoop configuration knows the scheme.
        InvalidOptionError: the location does not name a folder.
    """
    if not location:
        return normalise(location)  # raises the error of an empty location
    scheme = scheme_of(location)
    if scheme is not None and is_known_scheme(scheme):
        return hadoop_url(gateway, normalise(location))
    hadoop = gateway.session.sessionState().newHadoopConf()
    if scheme is None and scheme_of(hadoop.get("fs.defaultFS") or "") in (LOCAL_SCHEME, None):
        return normalise(location)  # relative to the working directory of this process, which the JVM may not share
    path = gateway.java_class("org.apache.hadoop.fs.Path")(location)
    try:
        system = path.getFileSystem(hadoop)
    except Exception as error:
        if is_any(error, {"org.apache.hadoop.fs.UnsupportedFileSystemException"}):
            return normalise(location)  # raises UnsupportedStorageError if the location has a scheme
        raise StorageUnavailableError(
            table=location, operation="open the file system", detail=detail_of(error)
        ) from error
    return spelled(str(path.makeQualified(system.getUri(), system.getWorkingDirectory()).toString()))


def hadoop_url(gateway: Gateway, url: str) -> str:
    """The url with Hadoop's scheme for the storage: `s3` becomes `s3a`, unless the session configures `fs.s3.impl`."""
    scheme, colon, rest = url.partition(":")
    if scheme != "s3" or gateway.session.sessionState().newHadoopConf().get("fs.s3.impl") is not None:
        return url
    return "s3a" + colon + rest


def url_of_uri(gateway: Gateway, uri: JavaObject) -> str:
    """The url of a folder from the (escaped) URI in Spark's catalog."""
    return qualified_url(gateway, str(gateway.java_class("org.apache.hadoop.fs.Path")(uri).toString()))


def is_there(gateway: Gateway, url: str) -> bool:
    """Whether there is a folder or a file at a url, as Hadoop sees it; in a storage that Hadoop does not know there is
    none.
    """
    try:
        path = gateway.java_class("org.apache.hadoop.fs.Path")(url)
        return bool(path.getFileSystem(gateway.session.sessionState().newHadoopConf()).exists(path))
    except JVM_ERRORS:
        return False


def is_hadoops(url: str) -> bool:
    """Whether a url from `qualified_url` is in a storage that tahoe can only access through Hadoop."""
    return not is_known_scheme(split_url(url)[0])


@dataclass(frozen=True, slots=True)
class HadoopStore:
    """A `Store` over a folder of a Hadoop file system.

    Args:
        url: from `qualified_url`.
        settings: Hadoop settings that take precedence over the session's; they may contain secrets and are not printed.
    """

    url: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        folder, after = f"{prefix}/" if prefix else "", byte_order(start_after)
        name = start_after.removeprefix(folder) if start_after.startswith(folder) else ""
        with self._storage_errors("list", prefix):
            found = files_of(folder, self._storage().list(self._path(prefix), name))
        return (info for info in found if byte_order(info.key) > after and not is_temporary(info.key))

    def walk(self, prefix: str = "") -> Iterator[FileInfo]:
        with self._storage_errors("list", prefix):
            return iter(files_of(f"{prefix}/" if prefix else "", self._storage().walk(self._path(prefix))))

    def tree(self) -> Tree:
        found = Tree()
        for branch in self.branches():
            found.extend(branch)
        return found

    def branches(self) -> Iterator[Tree]:
        """Pages, each by one call into the JVM; see `storage.env.branches`."""
        with self._storage_errors("list", ""):
            listing = self._storage().tree(self._path(""), _PAGE_ENTRIES)
        is_last = False
        while not is_last:
            with self._storage_errors("list", ""):
                page = _tree_of(str(listing.next()))
            is_last = len(page.keys) + len(page.folders) < _PAGE_ENTRIES
            yield page

    def get(self, key: str) -> bytes:
        with self._storage_errors("read", key, missing_passes=True):
            return bytes(self._storage().read(self._path(key)))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._storage_errors("read", key, missing_passes=True):
            return bytes(self._storage().readRange(self._path(key), start, length))

    def head(self, key: str) -> FileInfo | None:
        with self._storage_errors("look at", key):
            found = files_of(
                f"{folder}/" if (folder := key.rpartition("/")[0]) else "", self._storage().status(self._path(key))
            )
        return found[0] if found else None

    def open(self, key: str, known: FileInfo | None = None) -> BinaryIO:
        """Open a file for reading. If the file is replaced in HDFS, reading fails; it never mixes the contents of two
        files.
        """
        info = self.head(key)
        if info is None:
            raise self._missing(key)
        if known is not None and info.identity != known.identity:
            raise FileReplacedError(errno.ESTALE, "the file was replaced", join(self.url, key))
        with self._storage_errors("read", key, missing_passes=True):
            stream = self._storage().open(self._path(key))
        return cast(BinaryIO, RangeFile(info.size_bytes, partial(self._part, key, stream), stream.close))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._check_rename(key, split_url(self.url)[0])
        with self._storage_errors("create", key), self._temporary(key, data) as (storage, temporary):
            self._check_rename(key, storage.schemeOf(temporary))  # the file system behind a mount
            return bool(storage.rename(temporary, self._path(key)))

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        with self._storage_errors("write", key), self._temporary(key, data) as (storage, temporary):
            storage.replace(temporary, self._path(key))

    def copy_from(self, source: Store, key: str, to: str) -> None:
        copy_through(source, key, self, to)

    def delete(self, key: str) -> None:
        with self._storage_errors("delete", key):
            self._storage().delete(self._path(key))

    def delete_many(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        return {key: error for failed in in_pieces(self._delete_batch, keys) for key, error in failed.items()}

    def remove_folders(self, keys: Iterable[str]) -> list[str]:
        ordered = deepest_first(keys)
        with self._storage_errors("delete", "empty folders"):
            removed = set(self._storage().removeEmpty(_joined_paths(self._path(key) for key in ordered)).split("\0"))
        return [key for key in ordered if self._path(key) in removed]

    # --- the steps

    def _delete_batch(self, keys: Sequence[str]) -> dict[str, DeltaStorageError]:
        by_path = {self._path(key): key for key in keys}
        with self._storage_errors("delete", f"{len(keys)} files"):
            parts = self._storage().deleteAll(_joined_paths(by_path)).split("\0")
        failed: dict[str, DeltaStorageError] = {}
        for path, detail in zip(parts[0::2], parts[1::2], strict=False):
            failed[by_path[path]] = StorageUnavailableError(
                table=self.url, operation=f"delete {by_path[path]}", detail=detail
            )
        return failed

    def _storage(self) -> JavaObject:
        scheme, authority, _ = split_url(self.url)
        return running_class("delta.Storage").of(scheme, authority, settings_text(self.settings))

    def _path(self, key: str) -> str:
        """The key's absolute path in the file system."""
        return "/" + "/".join(part for part in (split_url(self.url)[2], key) if part)

    def _part(self, key: str, stream: JavaObject, start: int, length: int) -> bytes:
        with self._storage_errors("read", key):
            return bytes(running_class("delta.Storage").part(stream, start, length))

    @contextmanager
    def _temporary(self, key: str, data: bytes | BinaryIO) -> Iterator[tuple[JavaObject, str]]:
        """A temporary file with the content, synced to disk, in the key's folder. If the caller's block fails, the file
        is deleted.
        """
        storage, folder = self._storage(), self._path(key).rpartition("/")[0]
        path = f"{folder}/.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
        out = storage.create(path)
        try:
            try:
                for piece in _pieces(data):
                    out.write(piece)
            except BaseException:
                with suppress(Exception):
                    out.close()
                raise
            storage.finish(out)
            yield storage, path
        except BaseException:
            with suppress(Exception):
                storage.delete(path)
            raise

    def _check_rename(self, key: str, scheme: str) -> None:
        """Refuse to commit in a file system whose rename does not exclude other writers."""
        if scheme in _UNSAFE_RENAMES:
            detail = f"a rename in {scheme}:// {_UNSAFE_RENAMES[scheme]}"
            raise AtomicCreateUnsupportedError(table=self.url, operation=f"create {key}", detail=detail)

    def _missing(self, key: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), join(self.url, key))

    @contextmanager
    def _storage_errors(self, operation: str, key: str, *, missing_passes: bool = False) -> Iterator[None]:
        """Translate Java exceptions into our errors. With `missing_passes` a missing file becomes a
        FileNotFoundError.
        """
        request = f"{operation} {key or 'the folder'}"
        try:
            yield
        except NoGatewayError as error:
            detail = "only the process that started Spark's JVM can access it"
            raise StorageRefusedError(table=self.url, operation=request, detail=detail) from error
        except JVM_ERRORS as error:
            if missing_passes and is_any(error, {_MISSING}):
                raise self._missing(key) from error
            is_certain = is_any(error, _REFUSALS)
            kind = StorageRefusedError if is_certain else StorageUnavailableError
            if operation == "create" and is_any(error, _NO_ATOMIC_CREATE):
                kind = AtomicCreateUnsupportedError
            raise kind(table=self.url, operation=request, detail=detail_of(error)) from error


def settings_text(settings: Mapping[str, str]) -> str:
    """Settings as our Java classes take them: names and values, each ended by a zero character."""
    return "".join(f"{name}\0{value}\0" for name, value in sorted(settings.items()))


def files_of(folder: str, listing: str) -> list[FileInfo]:
    """The files of a listing by `delta.Storage`, in byte order. `folder` is empty or ends with a slash."""
    return sorted(
        (FileInfo(folder + name, size, time) for name, size, time in _triples(listing)), key=lambda f: byte_order(f.key)
    )


def _tree_of(page: str) -> Tree:
    tree = Tree()
    for name, size, time in _triples(page):
        if name.endswith("/"):
            tree.add_folder(name[:-1], time)
        else:
            tree.add(name, size, time)
    return tree


def _triples(listing: str) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of each entry of a listing."""
    parts = listing.split("\0")
    # the text ends with a separator, so the last part is empty
    return (
        (name, int(size), int(time)) for name, size, time in zip(parts[0::3], parts[1::3], parts[2::3], strict=False)
    )


def _joined_paths(paths: Iterable[str]) -> str:
    """Paths as `delta.Storage` takes them, each ended by a zero character."""
    return "".join(f"{path}\0" for path in paths)


def _pieces(data: bytes | BinaryIO) -> Iterator[bytes]:
    if isinstance(data, bytes):
        for start in range(0, len(data), _PIECE_BYTES):
            yield data[start : start + _PIECE_BYTES]
    else:
        while piece := data.read(_PIECE_BYTES):
            yield piece


def is_any(error: BaseException, names: Set[str]) -> bool:
    """Whether the Java exception behind an error is of one of these classes or of a subclass."""
    java_exception = java_error(error)
    return java_exception is not None and any(name in names for name in class_names(java_exception))


def detail_of(error: BaseException) -> str:
    """The first line of Java's message, prefixed with the exception's class, because many messages are unclear without
    it.
    """
    found = java_error(error)
    text = str(error) if found is None else f"{found.getClass().getSimpleName()}: {found.getMessage()}"
    return text.partition("\n")[0].rstrip(".")
