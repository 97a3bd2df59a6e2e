"""Lists the files of a source of COPY INTO: all of a folder, some of them by name or pattern, or a single file.

The storage lists them, not Spark: what is recorded as loaded must be what was listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tahoe.errors import CopySourceGlobError, CopySourceMissingError, CopyUnsupportedError, InvalidOptionError
from tahoe.protocol.types.partition_folders import is_hidden
from tahoe.spark.configuration.flags import parse_flag
from tahoe.spark.ingest.copy_request import CopyRequest
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.hadoop_store import is_there, qualified_url
from tahoe.spark.jvm.statements.time_travel import session_moment
from tahoe.spark.jvm.table_cache import session_env
from tahoe.storage.env import FileInfo, Store, branches
from tahoe.storage.locations import join, split_file
from tahoe.storage.threads import in_threads
from tahoe.table.writing.copied_files import SourceFile

_GLOB_CHARACTERS = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a statement loads from.

    Attributes:
        url: of the folder or the file.
        files: in the order of their paths.
        has_partitions: whether folders named `column=value` make columns.
    """

    url: str
    files: tuple[SourceFile, ...]
    has_partitions: bool


def listed_source(spark: SparkSession, request: CopyRequest, *, table: str) -> Source:
    """The files that a statement is about, loaded or not.

    Raises:
        CopySourceMissingError, CopySourceGlobError: there is no such folder or file.
        CopyUnsupportedError, InvalidOptionError: a name, a pattern or an option cannot be used.
        DeltaStorageError: the storage cannot be listed.
    """
    gateway = Gateway(spark)
    url = qualified_url(gateway, request.source)
    store = session_env(spark, url).store
    recursive = parse_flag(request.own_options.get("recursivefilelookup", "false"), "recursiveFileLookup", table=table)
    if request.files is not None:
        found = list(_named(store, request.files, table))
    else:
        wanted = _wanted(request, recursive=recursive, table=table)
        found = [info for info in _all_files(store) if not is_hidden(info.key) and wanted(info.key)]
        if not found and (single := _single_file(spark, url)) is not None:
            return _of_single_file(request, url, single, table)
        if not found:
            _check_exists(gateway, request.source, url, table)
    is_within = _filter(gateway, request, table)
    files = [
        SourceFile(path=join(url, info.key), size_bytes=info.size_bytes, modified_ms=info.modified_ms)
        for info in found
        if is_within(info)
    ]
    has_partitions = not recursive and any("=" in info.key.rpartition("/")[0] for info in found)
    return Source(url=url, files=tuple(sorted(files, key=lambda file: file.path)), has_partitions=has_partitions)


def _named(store: Store, names: tuple[str, ...], table: str) -> Iterator[FileInfo]:
    keys = list(dict.fromkeys(name.strip("/") for name in names))
    for key, info in zip(keys, in_threads(store.head, keys), strict=True):
        if info is None:
            raise CopySourceMissingError(table=table, source=join(store.url, key))
        if is_hidden(key):
            raise CopyUnsupportedError(
                table=table,
                detail=f"Spark's readers pass over {key}, because a name that begins with _ or . is hidden",
                remedy="Rename the file.",
            )
        yield info


def _all_files(store: Store) -> Iterator[FileInfo]:
    for tree in branches(store):
        for key, size_bytes, modified_ms in zip(tree.keys, tree.sizes_bytes, tree.modified_ms, strict=True):
            yield FileInfo(key, size_bytes, modified_ms)


def _wanted(request: CopyRequest, *, recursive: bool, table: str) -> Callable[[str], bool]:
    """Which paths below the folder count: those that fit the pattern; without one, as for Spark's readers, the files of
    the folder itself and of its partitions, or with `recursiveFileLookup` all.
    """
    if request.pattern is not None:
        matches = glob(request.pattern.lstrip("/"), "PATTERN", table=table)
        return lambda key: matches.fullmatch(key) is not None
    return lambda key: recursive or all("=" in folder for folder in key.split("/")[:-1])


def _filter(gateway: Gateway, request: CopyRequest, table: str) -> Callable[[FileInfo], bool]:
    """Which files count by the options of Spark's readers about names and times."""
    options = request.own_options
    name_glob = options.get("pathglobfilter")
    name = None if name_glob is None else glob(name_glob, "pathGlobFilter", table=table)
    bounds = [
        None if text is None else round(session_moment(gateway)(text, table).timestamp() * 1000)
        for text in (options.get("modifiedafter"), options.get("modifiedbefore"))
    ]
    after_ms, before_ms = bounds
    return lambda info: (
        (name is None or name.fullmatch(info.key.rpartition("/")[2]) is not None)
        and (after_ms is None or info.modified_ms > after_ms)
        and (before_ms is None or info.modified_ms < before_ms)
    )


def _single_file(spark: SparkSession, url: str) -> FileInfo | None:
    folder, key = split_file(url)
    if not key or folder.endswith(("/", ":")):
        return None
    return session_env(spark, folder).store.head(key)


def _of_single_file(request: CopyRequest, url: str, info: FileInfo, table: str) -> Source:
    if request.pattern is not None:
        raise CopyUnsupportedError(
            table=table, detail=f"{url} is a file, so PATTERN chooses nothing", remedy="Leave out PATTERN."
        )
    file = SourceFile(path=url, size_bytes=info.size_bytes, modified_ms=info.modified_ms)
    return Source(url=url, files=(file,), has_partitions=False)


def _check_exists(gateway: Gateway, source: str, url: str, table: str) -> None:
    if is_there(gateway, url):
        return
    error = CopySourceGlobError if _GLOB_CHARACTERS.search(source) else CopySourceMissingError
    raise error(table=table, source=source)


def glob(pattern: str, option: str, *, table: str) -> re.Pattern[str]:
    """A pattern of Hadoop's, as a regular expression: `*` and `?` for characters within a name, `[a-c]` and `[^a]` for
    one of some characters, `{a,b}` for one of some texts, and a backslash before a character that is meant itself.

    Raises:
        InvalidOptionError: a bracket or a brace is not closed.
    """
    out, place, depth = "", 0, 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "\\" and place < len(pattern):
            out += re.escape(pattern[place])
            place += 1
        elif character == "[":
            end = pattern.find("]", place + 1)
            if end < 0:
                raise _invalid(pattern, option, "a [ has no ]", table)
            inside = pattern[place:end]
            negated = inside[:1] in ("^", "!")
            members = inside[negated:].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            out += f"[{'^/' if negated else ''}{members}]"
            place = end + 1
        elif character in "{}," and (depth or character == "{"):
            out += {"{": "(?:", "}": ")", ",": "|"}[character]
            depth += {"{": 1, "}": -1, ",": 0}[character]
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
    if depth:
        raise _invalid(pattern, option, "a { has no }", table)
    try:
        return re.compile(out, re.DOTALL)
    except re.error as error:
        raise _invalid(pattern, option, str(error), table) from None


def _invalid(pattern: str, option: str, detail: str, table: str) -> InvalidOptionError:
    return InvalidOptionError(option=option, value=pattern, table=table, detail=detail)
