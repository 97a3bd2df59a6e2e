"""Lists the files of a source of COPY INTO: all of a folder, some of them by name or pattern, or a single file.

The storage lists them, not Spark: what is recorded as loaded must be what was listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tahoe.errors import (
    CopySourceGlobError,
    CopySourceMissingError,
    CopyUnsupportedError,
    InvalidOptionError,
    InvalidTimeTravelError,
)
from tahoe.protocol.log.log_files import LOG_FOLDER
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

# The first of these ends the part of a pattern that means itself; a `}` or a comma only does behind a `{`.
_PATTERN_CHARACTERS = re.compile(r"[*?\[{\\]")


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
        CopyUnsupportedError, InvalidOptionError: a file, a name, a pattern or an option cannot be used.
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
        below = _folder_of_pattern(request.pattern)
        listed = list(_all_files(session_env(spark, join(url, below)).store if below else store, below))
        found = [info for info in listed if not _is_passed_over(info.key) and wanted(info.key)]
        if not found and (single := _single_file(spark, url)) is not None:
            return _of_single_file(request, url, single, table)
        if not found:
            _check_exists(gateway, request.source, url, table)
        if request.format == "PARQUET":
            tables = _tables_among(listed) | _tables_above(store, below)
            _check_no_table(tables, found, url, table)
    is_within = _filter(gateway, request, table)
    files = [
        SourceFile(path=join(url, info.key), size_bytes=info.size_bytes, modified_ms=info.modified_ms)
        for info in found
        if is_within(info)
    ]
    _check_paths(files, table)
    has_partitions = not recursive and any("=" in info.key.rpartition("/")[0] for info in found)
    return Source(url=url, files=tuple(sorted(files, key=lambda file: file.path)), has_partitions=has_partitions)


def _named(store: Store, names: tuple[str, ...], table: str) -> Iterator[FileInfo]:
    keys = list(dict.fromkeys(_key(name, table) for name in names))
    for key, info in zip(keys, in_threads(store.head, keys), strict=True):
        if info is None:
            raise CopySourceMissingError(table=table, source=join(store.url, key))
        _check_visible(key, table)
        yield info


def _key(name: str, table: str) -> str:
    """The path below the source that a name in FILES means. Each file has one, by which it is known."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise CopyUnsupportedError(
            table=table,
            detail=f"FILES has {name}, and names files below the source",
            remedy="Give the folder that has the file as the source.",
        )
    return "/".join(parts)


def _is_passed_over(key: str) -> bool:
    """Whether Spark's readers pass over a file: a hidden one, or one that Hadoop is still putting there."""
    return is_hidden(key) or key.endswith("._COPYING_")


def _check_visible(key: str, table: str) -> None:
    if _is_passed_over(key):
        raise CopyUnsupportedError(
            table=table,
            detail=f"Spark's readers pass over {key}: names that begin with _ or ., or end with ._COPYING_, are hidden",
            remedy="Rename the file.",
        )


def _check_no_table(tables: Set[str], found: Sequence[FileInfo], url: str, table: str) -> None:
    """Check that no file is one of a Delta table, whose folder has also rows that were deleted or replaced."""
    for info in found if tables else ():
        folders = f"/{info.key}".split("/")[:-1]
        of_table = next((at for n in range(len(folders)) if (at := "/".join(folders[1 : n + 1])) in tables), None)
        if of_table is not None:
            place = join(url, of_table).rstrip("/")
            raise CopyUnsupportedError(
                table=table,
                detail=f"{place} is a Delta table, and its folder has also rows that were deleted or replaced",
                remedy=f"Read it as a table: INSERT INTO ... SELECT * FROM delta.`{place}`.",
            )


def _tables_among(listed: Sequence[FileInfo]) -> set[str]:
    return {folder for info in listed if (folder := _folder_of_log(info.key)) is not None}


def _tables_above(store: Store, below: str) -> set[str]:
    """The tables among the folders that lead to a folder below the source, which itself is listed."""
    names = below.split("/") if below else []
    above = ["/".join(names[:depth]) for depth in range(len(names))]
    return {folder for folder in above if any(store.list_from(f"{folder}/{LOG_FOLDER}".lstrip("/")))}


def _folder_of_log(key: str) -> str | None:
    """The table's folder, for a file of a table's log."""
    table, is_log, _ = f"/{key}".partition(f"/{LOG_FOLDER}/")
    return table.lstrip("/") if is_log else None


def _check_paths(files: Sequence[SourceFile], table: str) -> None:
    """Check that files are not the table's own, and have names that the record can store."""
    for file in files:
        if file.path.startswith(f"{table}/"):
            raise CopyUnsupportedError(
                table=table, detail=f"{file.path} is in the table's own folder", remedy="Choose files of other folders."
            )
        try:
            file.path.encode()
        except UnicodeEncodeError:
            shown = file.path.encode(errors="backslashreplace").decode()
            raise CopyUnsupportedError(
                table=table, detail=f"the name of {shown} is not UTF-8", remedy="Rename the file."
            ) from None


def _all_files(store: Store, below: str) -> Iterator[FileInfo]:
    """All files of a store, which is that of a folder below the source, with their keys in the source."""
    prefix = f"{below}/" if below else ""
    for tree in branches(store):
        for key, size_bytes, modified_ms in zip(tree.keys, tree.sizes_bytes, tree.modified_ms, strict=True):
            yield FileInfo(prefix + key, size_bytes, modified_ms)


def _folder_of_pattern(pattern: str | None) -> str:
    """The folder below the source in which all files are that a pattern can fit; nothing else needs to be listed."""
    literal = _PATTERN_CHARACTERS.split(pattern.lstrip("/"), maxsplit=1)[0] if pattern is not None else ""
    folder = literal.rpartition("/")[0]
    return "" if {"", ".", ".."} & set(folder.split("/")) else folder


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
    fits = None if name_glob is None else glob(name_glob, "pathGlobFilter", table=table)
    after_ms, before_ms = (
        None if text is None else _moment_ms(gateway, name, text, table)
        for name, text in (
            ("modifiedAfter", options.get("modifiedafter")),
            ("modifiedBefore", options.get("modifiedbefore")),
        )
    )
    return lambda info: (
        (fits is None or fits.fullmatch(info.key.rpartition("/")[2]) is not None)
        and (after_ms is None or info.modified_ms > after_ms)
        and (before_ms is None or info.modified_ms < before_ms)
    )


def _moment_ms(gateway: Gateway, option: str, text: str, table: str) -> int:
    try:
        return round(session_moment(gateway)(text, table).timestamp() * 1000)
    except InvalidTimeTravelError as error:
        raise InvalidOptionError(option=option, value=text, table=table, detail="it is not a timestamp") from error


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
    _check_visible(info.key, table)
    file = SourceFile(path=url, size_bytes=info.size_bytes, modified_ms=info.modified_ms)
    _check_paths([file], table)
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
