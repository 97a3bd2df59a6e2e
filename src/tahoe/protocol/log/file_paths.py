"""The paths of files in the log: their escapes, their canonical spelling, and the urls that they stand for.

Protocol: `path` of "Add File and Remove File". URLs are only text here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from tahoe.errors import InvalidPathError, PathOutsideTableError
from tahoe.protocol.types.json_text import is_text

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?")
# RFC 2396: the characters that a path need not escape. Java's URI, which writers use, does not escape non-ASCII
# characters either.
_PATH_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-!.~'()*,;:$&+=@/")
# Different schemes for the same storage.
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}


def encode_path(relative: str) -> str:
    """The URI for `add.path` of a path relative to the table."""
    encoded = "".join(c if c in _PATH_CHARACTERS or _is_kept(c) else _percent(c) for c in relative)
    first, slash, rest = encoded.partition("/")
    return first.replace(":", "%3A") + slash + rest  # otherwise it would be parsed as a scheme


def encode_url(url: str) -> str:
    """The URI of an absolute, unescaped url, for a path in the log: spelled as Hadoop's Path prints it, `file:/x` for
    `file:///x`, because the reference compares such texts."""
    found = _SCHEME.match(url)
    if found is None:
        return encode_path(url)
    authority = f"//{found[2]}" if found[2] else ""
    return f"{found[1]}:{authority}{encode_path(url[found.end() :])}"


def _is_kept(character: str) -> bool:
    return ord(character) > 0x9F and not character.isspace() and not 0xD800 <= ord(character) <= 0xDFFF


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


def decode_path(uri: str) -> str:
    """The path that a URI in the log denotes. A percent sign outside an escape is kept, because old writers did not
    escape it.
    """
    return unquote(uri, errors="surrogateescape") if "%" in uri else uri


def resolve_path(add_path: str, table_url: str) -> str:
    """The absolute, unescaped url of a file in the log.

    A relative path is below the table; `/abs/path` is in the table's own storage; `file:/x` becomes `file:///x`. An
    absolute path may point anywhere, as shallow clones need: the writers of a log decide what its readers open with
    their credentials.

    Raises:
        PathOutsideTableError: a relative path points outside the table's folder.
        InvalidPathError: the unescaped path is not valid UTF-8 or contains a null character.
    """
    if is_canonical(add_path):
        return f"{table_url}/{add_path}"
    folder, name = _split_name(add_path)
    resolved = _resolved_folder(folder, table_url) if name else None
    return _resolve(add_path, table_url) if resolved is None else resolved + name


def _resolve(add_path: str, table_url: str) -> str:
    scheme, authority, path = _absolute(add_path, table_url)
    if "\0" in path or not is_text(path):
        raise InvalidPathError(
            table=table_url, path=add_path, detail="it contains a null character" if "\0" in path else "it is not UTF-8"
        )
    if scheme is not None:
        return f"{scheme}://{authority}{path}"
    if path == ".." or path.startswith("../"):
        raise PathOutsideTableError(path=add_path, table=table_url)
    return f"{table_url}/{path}"


# A relative path without escapes and without segments that begin with a dot.
_CANONICAL = re.compile(r"[\w=-][\w=.-]*(?:/[\w=-][\w=.-]*)*")


def is_canonical(add_path: str) -> bool:
    """Whether a path is surely relative and has one spelling only, with and without escapes."""
    return _CANONICAL.fullmatch(add_path) is not None


def canonical_key(add_path: str, table_url: str) -> str:
    """The canonical spelling of a file's path: unescaped and relative to the table, or an absolute url for a file
    elsewhere.
    """
    if is_canonical(add_path):
        return add_path
    folder, name = _split_name(add_path)
    return _folder_key(folder, table_url) + name if name else _key(add_path, table_url)


def _key(add_path: str, table_url: str) -> str:
    scheme, authority, path = _absolute(add_path, table_url)
    if scheme is None:
        return path
    home_scheme, home_authority, home = _split(table_url)
    scheme = _SAME_SCHEME.get(scheme, scheme)
    if (scheme, authority) == (_SAME_SCHEME.get(home_scheme, home_scheme), home_authority) and path.startswith(
        home + "/"
    ):
        return path[len(home) + 1 :]
    return f"{scheme}://{authority}{path}"


# The files of a shallow clone have absolute paths, and are in few folders.
_FOLDERS_KEPT = 4096


def _split_name(add_path: str) -> tuple[str, str]:
    """The folder of a path and the name in it; the name is empty unless it can be appended to any spelling of the
    folder.
    """
    folder, _, name = add_path.rpartition("/")
    return folder, name if folder and not folder.endswith("/") and is_canonical(name) else ""


@lru_cache(_FOLDERS_KEPT)
def _resolved_folder(folder: str, table_url: str) -> str | None:
    """`resolve_path` of every name in a folder, without the name; None if it raises."""
    try:
        return _resolve(f"{folder}/_", table_url)[:-1]
    except (PathOutsideTableError, InvalidPathError):
        return None


@lru_cache(_FOLDERS_KEPT)
def _folder_key(folder: str, table_url: str) -> str:
    """`canonical_key` of every name in a folder, without the name."""
    return _key(f"{folder}/_", table_url)[:-1]


def _absolute(add_path: str, table_url: str) -> tuple[str | None, str, str]:
    """Scheme, authority and normalised path; the scheme is None for a path relative to the table."""
    if found := _SCHEME.match(add_path):
        scheme, authority = _home(found)
        return scheme, authority, "/" + _normal(decode_path(add_path[found.end() :]))
    if add_path.startswith("/"):
        scheme, authority, _ = _split(table_url)
        return scheme, authority, "/" + _normal(decode_path(add_path))
    return None, "", _normal(decode_path(add_path))


@lru_cache(maxsize=16)
def _split(table_url: str) -> tuple[str, str, str]:
    """Scheme, authority and path of a table's unescaped url; without a scheme it is a local path."""
    found = _SCHEME.match(table_url)
    if found is None:
        return "file", "", table_url.rstrip("/")
    return (*_home(found), table_url[found.end() :].rstrip("/"))


def _home(found: re.Match[str]) -> tuple[str, str]:
    scheme, authority = found[1].lower(), found[2] or ""
    return scheme, "" if scheme == "file" and authority.lower() == "localhost" else authority


def _normal(path: str) -> str:
    """The path without empty and `.` segments, and with `..` resolved.

    In a relative path, leading `..` segments remain.
    """
    rooted = path.startswith("/")
    if is_canonical(path.removeprefix("/")):
        return path.removeprefix("/")
    segments: list[str] = []
    for segment in path.split("/"):
        if segment in ("", ".") or (segment == ".." and rooted and not segments):
            continue
        if segment == ".." and segments and segments[-1] != "..":
            segments.pop()
        else:
            segments.append(segment)
    return "/".join(segments)
