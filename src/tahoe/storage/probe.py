"""Whether a store really creates a file only where there is none: tried out, because some say so and overwrite. It knows only the contract.

Storages that speak S3's language but do not know `If-None-Match` ignore it, as HTTP lets them, and every writer that commits a version is
told that it has won. Nothing in their answers shows that. So the same key is created twice, by a name that listings leave out.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from tahoe.errors import ConditionalCreateIgnoredError, DeltaStorageError
from tahoe.storage.env import TEMPORARY_SUFFIX, Store

_FIRST, _SECOND = b"first", b"second"


def check_creates_once(store: Store, folder: str) -> None:
    """Create a small file in a folder twice, and take it away again.

    Raises:
        ConditionalCreateIgnoredError: the second was not refused, or has taken the place of the first.
        StorageUnavailableError: it could not be tried out.
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
        said = "had been created" if is_told_created else "existed"
        detail = f"the storage said of the second time that the file {said}, and then held {found.decode(errors='replace')!r}"
        raise ConditionalCreateIgnoredError(table=store.url, key=key, detail=detail)
