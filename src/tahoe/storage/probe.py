"""Probes whether a store really creates a file only if it does not exist, because some storages overwrite it instead.

S3-compatible storages without support for `If-None-Match` ignore the header, so every writer that commits a version
appears to have won. Their responses do not show it. The probe therefore creates the same key twice, under a name that
listings leave out.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from tahoe.errors import ConditionalCreateIgnoredError, DeltaStorageError
from tahoe.storage.env import TEMPORARY_SUFFIX, Store

_FIRST, _SECOND = b"first", b"second"


def check_creates_once(store: Store, folder: str) -> None:
    """Create a small file in a folder twice, and delete it again.

    Raises:
        ConditionalCreateIgnoredError: the second create was not refused, or replaced the content of the first.
        StorageUnavailableError: the probe failed.
    """
    key = f"{folder}/.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}" if folder else f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
    try:
        store.put_if_absent(key, _FIRST)
        is_told_created = store.put_if_absent(key, _SECOND)
        found = store.get(key)
    finally:
        with suppress(DeltaStorageError):
            store.delete(key)
    if is_told_created or found != _FIRST:
        answer = "reported success" if is_told_created else "reported that the file exists"
        detail = (
            f"the storage {answer} for the second request, and then returned the content "
            f"{found.decode(errors='replace')!r}"
        )
        raise ConditionalCreateIgnoredError(table=store.url, key=key, detail=detail)
