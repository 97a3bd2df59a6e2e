"""Temporary files, in which encoded rows wait. A full disk is named, because it may be another one than the table's.

Knows nothing of Delta.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tahoe.errors import StorageRefusedError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def temporary_disk_named() -> Iterator[None]:
    """Around work that writes temporary files: stores raise errors of their own.

    Raises:
        StorageRefusedError: there is no space for a temporary file; the error names the folder.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        folder = f"{tempfile.gettempdir()} (the folder for temporary files, TMPDIR)"
        raise StorageRefusedError(table=folder, operation="write a temporary file", detail=str(error)) from error
