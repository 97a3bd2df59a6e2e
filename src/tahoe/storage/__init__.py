"""Storage: stores of files, and the environment (`Env`) of the table ring. Knows nothing about Delta.

`open_store` chooses the store by the url's scheme. What object stores need is imported when one is opened, boto3 only
when a commit service is used.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tahoe.storage.background import in_background
from tahoe.storage.env import Env, FileInfo, Store, Watch
from tahoe.storage.local import LocalStore
from tahoe.storage.locations import normalise, split_url
from tahoe.storage.schemes import LOCAL_SCHEME, MEMORY_SCHEME, open_registered, register, store_factory

if TYPE_CHECKING:
    from tahoe.storage.cache.block_cache import BlockCache

__all__ = ["Env", "FileInfo", "Store", "env_of", "open_store", "register", "system_env"]


def open_store(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    find_cache: Callable[[], BlockCache | None] | None = None,
) -> Store:
    """Open the store for a folder, given as a path or url. Nothing is read, and the folder need not exist.

    Args:
        storage_options: credentials and settings for object stores, see `tahoe.storage.cloud_options`; and for commit
            services, see `service_options`.
        find_cache: the local cache for object stores, if there is one; None for that of this process.

    Raises:
        UnsupportedStorageError: tahoe does not support the scheme.
        InvalidOptionError: the location is incomplete, or the options specify an unknown commit service.
    """
    folder = normalise(url)
    scheme = split_url(folder)[0]
    if scheme == LOCAL_SCHEME:
        return LocalStore(folder)
    if scheme == MEMORY_SCHEME:
        from tahoe.storage.memory import MemoryStore  # noqa: PLC0415 - few programs have tables in memory

        return MemoryStore(folder)
    factory = store_factory(scheme)
    if factory is not None:
        return open_registered(factory, folder, dict(storage_options or {}))
    from tahoe.storage.object_stores import open_object_store  # noqa: PLC0415 - obstore starts threads, which do not survive a fork

    return open_object_store(folder, dict(storage_options or {}), find_cache)


def system_env(url: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Env:
    """The real environment for a folder: the system's clock, sleep, random numbers and UUIDs. It can be pickled if its
    store can.

    Raises:
        UnsupportedStorageError, InvalidOptionError: as `open_store`.
    """
    return env_of(os.fspath(url), partial(open_store, storage_options=storage_options))


def env_of(url: str, store_at: Callable[[str], Store], watch: Watch | None = None) -> Env:
    """The real environment for a folder, with a caller-provided function that opens it and all other folders of the
    table.
    """
    return Env(
        store=store_at(url),
        clock_ms=_clock_ms,
        new_id=_new_id,
        sleep=time.sleep,
        random=_random,
        store_at=store_at,
        background=in_background,
        watch=watch or Watch(),
    )


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return str(uuid.uuid4())


def _random() -> float:
    return random.random()
