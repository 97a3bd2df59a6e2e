"""The schemes of urls: those that tahoe opens, and those for which a store of one's own is registered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TypeAlias, cast

from tahoe.errors import DeltaError, InvalidOptionError, StoreNotOpenedError
from tahoe.storage.env import Store

StoreFactory: TypeAlias = Callable[[str, Mapping[str, str]], Store]
"""Opens a folder by its url, `scheme://authority/path` without a trailing slash, with the caller's storage options.
Nothing is read yet."""

ENTRY_POINTS = "tahoe.stores"

LOCAL_SCHEME = "file"
MEMORY_SCHEME = "memory"
S3_SCHEMES = ("s3", "s3a", "s3n")
AZURE_SCHEMES = ("az", "abfs", "abfss", "adl")
OWN_SCHEMES = (LOCAL_SCHEME, *S3_SCHEMES, "gs", *AZURE_SCHEMES, MEMORY_SCHEME)
"""Those that tahoe opens itself."""

_factories: dict[str, StoreFactory] = {}


def register(scheme: str, factory: StoreFactory) -> None:
    """Open urls of a scheme by a function, in this process. A later call replaces an earlier one.

    A package registers its store for all programs by an entry point in the group `tahoe.stores`, whose name is the
    scheme and whose value the function.

    Args:
        scheme: such as "sftp"; not one that tahoe opens itself.
        factory: opens a folder; see `tahoe.storage.env.Store` for what it must do.

    Raises:
        InvalidOptionError: the scheme is not one, or is tahoe's own.
    """
    lowered = scheme.lower()
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*", lowered) or lowered in OWN_SCHEMES:
        detail = "tahoe opens it itself" if lowered in OWN_SCHEMES else "expected letters, digits, '+', '.' and '-'"
        raise InvalidOptionError(option="scheme", value=scheme, table="tahoe.storage.register", detail=detail)
    if not callable(factory):
        detail = "expected a function of a url and the storage options"
        raise InvalidOptionError(option="factory", value=factory, table="tahoe.storage.register", detail=detail)
    _factories[lowered] = factory


def store_factory(scheme: str) -> StoreFactory | None:
    """What opens the urls of a scheme; None if nothing was registered for it.

    Raises:
        StoreNotOpenedError: the package that has it cannot be imported.
    """
    return _factories.get(scheme) or (None if scheme in OWN_SCHEMES else _of_package(scheme))


def is_known_scheme(scheme: str) -> bool:
    """Whether tahoe opens the urls of a scheme, by a store of its own or one that was registered."""
    return scheme in OWN_SCHEMES or store_factory(scheme) is not None


def open_registered(factory: StoreFactory, url: str, options: Mapping[str, str]) -> Store:
    """The store of a folder, by the function that is registered.

    Raises:
        StoreNotOpenedError: the function fails, or returns nothing.
    """
    name = getattr(factory, "__qualname__", repr(factory))
    try:
        store = factory(url, _Options(options))
    except DeltaError:
        raise
    except _OptionMissingError as error:
        detail = f"it needs the storage option {error}"
        raise StoreNotOpenedError(table=url, value=name, detail=detail) from error
    except Exception as error:
        raise StoreNotOpenedError(table=url, value=name, detail=repr(error)) from error
    if not hasattr(store, "put_if_absent"):
        raise StoreNotOpenedError(table=url, value=name, detail=f"it returned {store!r} instead of a store")
    return store


class _OptionMissingError(KeyError):
    """A function asks for a storage option that was not given."""


class _Options(dict[str, str]):
    def __missing__(self, name: str) -> str:
        raise _OptionMissingError(name)


@lru_cache
def _of_package(scheme: str) -> StoreFactory | None:
    for point in entry_points(group=ENTRY_POINTS):
        if point.name.lower() != scheme:
            continue
        try:
            return cast(StoreFactory, point.load())
        except Exception as error:
            raise StoreNotOpenedError(table=f"{scheme}://", value=point.value, detail=repr(error)) from error
    return None
