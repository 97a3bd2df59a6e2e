"""Normalises the locations that users type to urls, and splits urls. Works on text: nothing is opened here.

Locations are parsed as by Hadoop's Path: nothing is unescaped, empty segments and `.` are dropped, `..` removes a
segment. The scheme is not changed (`s3a` does not become `s3`), because Spark must find the data files under the same
url.
"""

from __future__ import annotations

import os
import re

from tahoe.errors import InvalidOptionError, UnsupportedStorageError
from tahoe.storage.schemes import LOCAL_SCHEME, MEMORY_SCHEME, OWN_SCHEMES, is_known_scheme

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?")


def normalise(location: str | os.PathLike[str]) -> str:
    """The url of a folder: `scheme://authority/path`, absolute, unescaped, without a trailing slash.

    A location without a scheme is a local path; a relative path starts at the working directory, and `~` is the user's
    home folder.

    Raises:
        UnsupportedStorageError: tahoe does not support the scheme.
        InvalidOptionError: the location is empty, or has no bucket, container or store.
    """
    text = os.fspath(location)
    if not text:
        raise InvalidOptionError(option="path", value="''", table="the table", detail="it is empty")
    scheme = scheme_of(text)
    if scheme is not None and not is_known_scheme(scheme):
        raise UnsupportedStorageError(
            table=text, scheme=scheme, schemes=", ".join(f"{known}://" for known in OWN_SCHEMES)
        )
    return spelled(text)


def scheme_of(location: str) -> str | None:
    """The scheme of a location, in lower case; None for a path."""
    found = _SCHEME.match(location)
    return None if found is None else found[1].lower()


def spelled(text: str) -> str:
    """Like `normalise`, but allows any scheme, for example one that only Hadoop supports.

    Raises:
        InvalidOptionError: the scheme is supported, but the location has no bucket, container or store.
    """
    found = _SCHEME.match(text)
    if found is None:
        return _local(os.path.expanduser(text) if text == "~" or text.startswith("~/") else text)
    scheme, authority, path = found[1].lower(), found[2] or "", text[found.end() :]
    if scheme == LOCAL_SCHEME:
        if authority.lower() not in ("", "localhost"):
            detail = f"a file url starts with file:///, but this one names the host {authority}"
            raise InvalidOptionError(option="path", value=text, table=text, detail=detail)
        return _local(path or ("" if found[2] is None else "/"))
    if not authority and scheme in OWN_SCHEMES:
        what = "name of a store in memory" if scheme == MEMORY_SCHEME else "bucket or container"
        raise InvalidOptionError(
            option="path", value=text, table=text, detail=f"it has no {what}; expected {scheme}://NAME/PATH"
        )
    return f"{scheme}://{authority}{_normal(path)}"


def _local(path: str) -> str:
    return f"{LOCAL_SCHEME}://{_normal(path if path.startswith('/') else f'{os.getcwd()}/{path}')}"


def _normal(path: str) -> str:
    """An absolute path with a slash before each segment; the root is the empty string."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    return "".join(f"/{segment}" for segment in segments)


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme, authority, and path without its leading slash, of a url from `normalise`."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    return scheme, authority, path


def join(url: str, key: str) -> str:
    """The url of a key in a store."""
    return f"{url}/{key}"


def split_file(url: str) -> tuple[str, str]:
    """The url of a file's folder, and the file's key in it."""
    folder, _, key = url.rpartition("/")
    return folder, key


def local_path(url: str) -> str:
    """The path of a `file` url in the operating system."""
    return url.removeprefix(f"{LOCAL_SCHEME}://") or "/"
