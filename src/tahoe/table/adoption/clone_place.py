"""Where a clone may be: in a folder of its own, which has no other files and is not inside a table or around one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from tahoe.errors import CloneNestedError, DeltaError, PathIsFileError, PathIsNotEmptyError
from tahoe.protocol.log.log_files import LOG_FOLDER
from tahoe.storage.env import branches, is_hidden
from tahoe.storage.locations import local_path, normalise
from tahoe.storage.schemes import LOCAL_SCHEME
from tahoe.table.log.delta_log import Log
from tahoe.table.versions.table_reader import TableReader


def check_place(target: TableReader, is_left_over: Callable[[str], bool]) -> None:
    """Refuse the folder of a new table if it is inside another table, has one inside, or has other files.

    Args:
        is_left_over: whether a name is of a file that an interrupted clone has left.

    Raises:
        CloneNestedError, PathIsFileError, PathIsNotEmptyError
    """
    if target.log.is_file():
        raise PathIsFileError(table=target.url)
    for folder in folders_above(target.url):
        if has_table(target, folder):
            raise CloneNestedError(table=target.url, relation="it is inside", other=folder)
    for branch in branches(target.env.store):
        for folders in (*(key.split("/")[:-1] for key in branch.keys), *(key.split("/") for key in branch.folders)):
            if LOG_FOLDER in folders[1:]:
                other = f"{target.url}/{'/'.join(folders[: folders.index(LOG_FOLDER, 1)])}"
                raise CloneNestedError(table=target.url, relation="in its folder is", other=other)
        if any(not is_hidden(key) and not is_left_over(key) for key in branch.keys):
            raise PathIsNotEmptyError(table=target.url)


def has_table(target: TableReader, folder: str) -> bool:
    """Whether a folder of the same storage has a table."""
    with suppress(DeltaError, OSError):  # the user may have access to the table's folder only
        return Log(replace(target.env, store=target.env.store_at(folder))).exists()
    return False


def folders_above(url: str) -> Iterator[str]:
    """The urls of the folders above a folder, nearest first, up to its bucket; of a local one also those that its links
    lead into.
    """
    if url.startswith(f"{LOCAL_SCHEME}://"):
        place = normalise(os.path.realpath(local_path(url)))
        yield from _above(place) if place != url else ()
    yield from _above(url)


def _above(url: str) -> Iterator[str]:
    start = url.index("://") + 3
    while (end := url.rfind("/", start)) >= start:
        url = url[:end]
        if end > start:
            yield url
