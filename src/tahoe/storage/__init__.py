"""Moving bytes: stores of files, and the outside world that the table ring sees. It knows nothing of Delta.

`open_store` chooses the store by the url's scheme. obstore is loaded only when an object store is opened, boto3 only when a commit service
is asked.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial

from tahoe.storage.background import in_background
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.env import Env, FileInfo, Store, Watch
from tahoe.storage.local import LocalStore
from tahoe.storage.locations import LOCAL_SCHEME, MEMORY_SCHEME, normalise, split_url
from tahoe.storage.memory import MemoryStore
from tahoe.storage.service_options import commit_service, without_service

__all__ = ["Env", "FileInfo", "Store", "env_of", "open_store", "system_env"]


def open_store(url: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """The store over a folder, by a path or url in any spelling. Nothing is read, and the folder need not exist.

    Args:
        storage_options: credentials and settings for object stores; see `tahoe.storage.cloud_options`, and `service_options` for S3 without
            conditional puts.

    Raises:
        UnsupportedStorageError: the scheme is none that tahoe has a storage for.
        InvalidOptionError: the location names nothing, or the options a commit service that does not exist.
    """
    folder = normalise(url)
    scheme = split_url(folder)[0]
    if scheme == LOCAL_SCHEME:
        return LocalStore(folder)
    if scheme == MEMORY_SCHEME:
        return MemoryStore(folder)
    from tahoe.storage.cloud import CloudStore  # noqa: PLC0415 - obstore starts threads, which a later fork does not survive

    options = dict(storage_options or {})
    service = commit_service(folder, options, os.environ)
    files = CloudStore(folder, without_service(options), is_tried_out=service is not None)
    return files if service is None else CoordinatedStore(inner=files, service=service)


def system_env(url: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Env:
    """The real world around a folder: the system's clock, sleep, chance and UUIDs. It can be pickled, as its store can.

    Raises:
        UnsupportedStorageError, InvalidOptionError: as `open_store`.
    """
    return env_of(os.fspath(url), partial(open_store, storage_options=storage_options))


def env_of(url: str, store_at: Callable[[str], Store], watch: Watch | None = None) -> Env:
    """The real world around a folder that something else opens, as it opens every other folder that the table needs."""
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
