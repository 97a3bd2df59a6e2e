"""Whether this process has a local cache, and where: `tahoe.cache`, or the environment variables `TAHOE_CACHE` and
`TAHOE_CACHE_SIZE`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from enum import Enum

from tahoe.errors import InvalidOptionError
from tahoe.protocol.configuration.properties import parse_size
from tahoe.storage.cache.block_cache import BlockCache, block_cache

FOLDER_VARIABLE, SIZE_VARIABLE = "TAHOE_CACHE", "TAHOE_CACHE_SIZE"
DEFAULT_SIZE = "50 GB"

# What a client takes from its environment begins so.
_CLOUD_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")


class _Unset(Enum):
    UNSET = "the environment decides"


_chosen: BlockCache | _Unset | None = _Unset.UNSET


def cache(
    folder: str | os.PathLike[str] | _Unset | None = _Unset.UNSET, size: str | int = DEFAULT_SIZE
) -> BlockCache | None:
    """Keep what is read from remote storages in a folder of this machine: logs, and the data files that Arrow reads.

    Tables that are open already are not affected. All processes of a user share a folder, also at the same time.

    Args:
        folder: on a local disk; made when it is needed. None turns the cache off. Without it, nothing is changed.
        size: how much the blocks may occupy, such as "200 GB", or bytes. Some space on the disk is left free.

    Returns:
        the cache, with its metrics; None if there is none.

    Raises:
        InvalidOptionError: the folder or the size is not valid.
    """
    global _chosen
    if folder is not _Unset.UNSET:
        _chosen = None if folder is None else opened_cache(os.fspath(folder), str(size))
    return active_cache()


def active_cache() -> BlockCache | None:
    """The cache of this process."""
    if _chosen is _Unset.UNSET:
        folder = os.environ.get(FOLDER_VARIABLE, "")
        return opened_cache(folder, os.environ.get(SIZE_VARIABLE, DEFAULT_SIZE)) if folder else None
    return _chosen


def opened_cache(folder: str, size: str = DEFAULT_SIZE, *, compresses: bool = False) -> BlockCache:
    """The cache in a folder; nothing is made yet.

    Raises:
        InvalidOptionError: the folder or the size is not valid.
    """
    if not folder.strip() or "://" in folder:
        detail = "it must be a folder of a local disk"
        raise InvalidOptionError(option="cache folder", value=repr(folder), table="the local cache", detail=detail)
    try:
        bytes_max = parse_size(size)
    except ValueError:
        detail = "it must be a size such as 200 GB, or a number of bytes"
        raise InvalidOptionError(option="cache size", value=size, table="the local cache", detail=detail) from None
    return block_cache(os.path.abspath(os.path.expanduser(folder)), bytes_max, compresses)


def realm_of(options: Mapping[str, str]) -> str:
    """A name for the endpoint and the credentials of a client, from which none of them can be found out."""
    environment = {name: value for name, value in os.environ.items() if name.startswith(_CLOUD_VARIABLES)}
    return hashlib.sha256(repr((sorted(options.items()), sorted(environment.items()))).encode()).hexdigest()
