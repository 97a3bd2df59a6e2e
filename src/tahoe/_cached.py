"""A property that is found out once for each object.

`functools.cached_property` of Python 3.11 holds one lock for all objects of a class while it finds out, so that a thread that waits for
a storage keeps all others waiting. From 3.12 on it holds none, and nor does this: two threads may find the same out at the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    T = TypeVar("T")

    class cached_property(Generic[T]):  # noqa: N801 - it stands in for the library's
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
