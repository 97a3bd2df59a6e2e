"""The local cache of a session, by its settings."""

from __future__ import annotations

import os

from tahoe.spark.configuration import setting_names
from tahoe.spark.configuration.setting_names import Texts
from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.cache.configuration import active_cache, opened_cache


def session_cache(settings: Texts, table: str) -> BlockCache | None:
    """The cache for the tables of a session: that of its settings, else that of the process.

    Raises:
        InvalidOptionError: a setting is not valid.
    """
    is_enabled = setting_names.CACHE_ENABLED.of(settings, table=table)
    folder = setting_names.CACHE_FOLDER.of(settings, table=table) or None
    if is_enabled is False:
        return None
    if folder is None and (not is_enabled or active_cache() is not None):
        return active_cache()
    size = setting_names.CACHE_SIZE.of(settings, table=table)
    of_metadata = setting_names.CACHE_METADATA_SIZE.of(settings, table=table) or 0
    compresses = setting_names.CACHE_COMPRESSION.of(settings, table=table)
    return opened_cache(
        folder or _default_folder(),
        str(size + of_metadata),
        compresses=compresses,
        folder_option=setting_names.CACHE_FOLDER.name,
        size_option=setting_names.CACHE_SIZE.name,
    )


def _default_folder() -> str:
    """Where programs of a user keep their caches."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tahoe")
