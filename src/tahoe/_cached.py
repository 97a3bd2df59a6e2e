"""Values that are kept: a property that is computed once per object, and a dictionary of limited size.

In Python 3.11, `functools.cached_property` holds one lock per class while it computes, so a thread that waits for
storage blocks all others. From 3.12 on it takes no lock, and neither does this one: two threads may compute the same
value at the same time.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    T = TypeVar("T")

    class cached_property(Generic[T]):  # noqa: N801 - it replaces the standard library's
        """See `functools.cached_property`."""

        def __init__(self, find: Callable[[Any], T]) -> None:
            self._find = find
            self.__doc__ = find.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            found = self._find(instance)
            instance.__dict__[self._name] = found
            return found


class Recent(Generic[K, V]):
    """A thread-safe dictionary of limited size that evicts the least recently used entry."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def kept(self) -> list[K]:
        """The keys, most recently used last."""
        with self._lock:
            return list(self._entries)

    def values(self) -> list[V]:
        """The values, most recently used last."""
        with self._lock:
            return list(self._entries.values())

    def put(self, key: K, value: V) -> V:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._size_max:
                self._entries.popitem(last=False)
        return value

    def drop(self, is_unwanted: Callable[[K], bool]) -> None:
        """Remove the entries of some keys."""
        with self._lock:
            for key in [key for key in self._entries if is_unwanted(key)]:
                del self._entries[key]


__all__ = ["Recent", "cached_property"]
