"""Commits that a command reads several times, kept for it. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from tahoe.protocol.log.actions import Action
from tahoe.protocol.log.log_files import LogFile

# The size of the kept files. Their actions take about ten times as much memory.
_BYTES_MAX = 64 << 20


class KeptCommits:
    """The actions of some commits, by the identity of their files. Small commits are kept until the files are too large
    together.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, tuple[int, str]], list[Action]] = {}
        self._bytes = 0
        self._lock = Lock()

    def read(self, file: LogFile, read: Callable[[], list[Action]]) -> list[Action]:
        """The actions of a commit; `read` is called if they are not kept. The file is as a listing has shown it."""
        key = file.name, file.identity
        known = self._kept.get(key)
        if known is not None:
            return known
        found = read()
        with self._lock:
            if key not in self._kept and self._bytes + file.size_bytes <= _BYTES_MAX:
                self._kept[key] = found
                self._bytes += file.size_bytes
        return found
