"""A property that is computed once per object.

In Python 3.11, `functools.cached_property` holds one lock per class while it computes, so a thread that waits for
storage blocks all others. From 3.12 on it takes no lock, and neither does this one: two threads may compute the same
value at the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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


__all__ = ["cached_property"]
