"""Whether this process has a local cache, and where: `tahoe.cache`, or the environment variables `TAHOE_CACHE` and
`TAHOE_CACHE_SIZE`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from enum import Enum

from tahoe.errors import InvalidOptionError
from tahoe.protocol.configuration.properties import parse_size
from tahoe.protocol.types.json_text import is_text
from tahoe.storage.cache.block_cache import BlockCache, block_cache

FOLDER_VARIABLE, SIZE_VARIABLE = "TAHOE_CACHE", "TAHOE_CACHE_SIZE"
DEFAULT_SIZE = "50 GB"

# Fewer blocks could not be told apart by how they are read.
_BYTES_MIN = 16 << 20

# Other programs write urls where this needs a path.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")

# What a client takes from its environment begins so, but for what names the program or its machine.
_CLOUD_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")
_OTHER_VARIABLES = ("AWS_LAMBDA_", "AWS_EXECUTION_ENV", "AWS_PAGER", "AWS_XRAY", "GOOGLE_CLOUD_PROJECT")


class _Unset(Enum):
    UNSET = "the environment decides"


_chosen: BlockCache | _Unset | None = _Unset.UNSET


def cache(
    folder: str | os.PathLike[str] | _Unset | None = _Unset.UNSET, size: str | int | None = None
) -> BlockCache | None:
    """Keep what is read from object stores in a folder of this machine: logs, and the data files that Arrow reads.

    Tables that are open already are not affected. All processes of a user share a folder, also at the same time.

    Args:
        folder: on a local disk; made when it is needed. None turns the cache off. Without it, nothing is changed.
        size: how much the blocks may occupy, such as "200 GB", or bytes; without it `TAHOE_CACHE_SIZE`, else 50 GB.
            Some space on the disk is left free.

    Returns:
        the cache, with its metrics; None if there is none.

    Raises:
        InvalidOptionError: the folder or the size is not valid, or there is a size without a folder.
    """
    global _chosen
    if folder is not _Unset.UNSET:
        _chosen = None if folder is None else opened_cache(os.fsdecode(folder), size)
    elif size is not None:
        raise _invalid("size", size, "it needs a folder")
    return active_cache()


def active_cache() -> BlockCache | None:
    """The cache of this process."""
    if _chosen is _Unset.UNSET:
        folder = os.environ.get(FOLDER_VARIABLE, "")
        return opened_cache(folder, folder_option=FOLDER_VARIABLE) if folder else None
    return _chosen


def opened_cache(
    folder: str,
    size: str | int | None = None,
    *,
    compresses: bool = False,
    folder_option: str = "folder",
    size_option: str = "size",
) -> BlockCache:
    """The cache in a folder; nothing is made yet.

    Args:
        folder_option, size_option: what users have set, for errors.

    Raises:
        InvalidOptionError: the folder or the size is not valid.
    """
    if not folder.strip() or _SCHEME.match(folder) or "\0" in folder or not is_text(folder):
        raise _invalid(folder_option, repr(folder), "it must be a folder of a local disk, as a path in UTF-8")
    by_variable = os.environ.get(SIZE_VARIABLE) if size is None else None
    text = by_variable or (DEFAULT_SIZE if size is None else str(size))
    try:
        bytes_max = parse_size(text)
        if bytes_max < _BYTES_MIN:
            raise ValueError(text)
    except ValueError:
        detail = "it must be a size of at least 16 MB, such as 200 GB, or a number of bytes"
        raise _invalid(SIZE_VARIABLE if by_variable else size_option, text, detail) from None
    return block_cache(os.path.abspath(os.path.expanduser(folder)), bytes_max, compresses)


def realm_of(options: Mapping[str, str]) -> str:
    """A name for the endpoint and the credentials of a client, from which none of them can be found out."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_CLOUD_VARIABLES) and not name.startswith(_OTHER_VARIABLES)
    }
    text = repr((sorted(options.items()), sorted(environment.items())))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _invalid(option: str, value: object, detail: str) -> InvalidOptionError:
    return InvalidOptionError(option=option, value=value, table="the local cache", detail=detail)
