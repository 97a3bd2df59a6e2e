"""Opens object stores, with the local cache and the commit service that are configured for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.cache.cached_store import CachedStore
from tahoe.storage.cache.configuration import active_cache, realm_of
from tahoe.storage.cloud import CloudStore
from tahoe.storage.coordinated import CoordinatedStore
from tahoe.storage.env import Store
from tahoe.storage.service_options import commit_service, without_service


def open_object_store(
    folder: str, options: Mapping[str, str], find_cache: Callable[[], BlockCache | None] | None
) -> Store:
    """Open the store for a folder, whose url is normalised; see `tahoe.storage.open_store`."""
    service = commit_service(folder, options, os.environ)
    cloud = CloudStore(folder, without_service(options), skips_probe=service is not None)
    cache = active_cache() if find_cache is None else find_cache()
    files: Store = cloud if cache is None else CachedStore(inner=cloud, realm=realm_of(options), blocks=cache)
    return files if service is None else CoordinatedStore(inner=files, service=service)
