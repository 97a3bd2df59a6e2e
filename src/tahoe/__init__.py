"""Delta Lake tables in Python, with every row processed by Spark.

    import tahoe
    tahoe.enable(spark)                              # then format("delta") works, in Python and in SQL
    tahoe.Table("/data/flights").to_arrow()          # a small reader that needs no Spark

`errors` contains every error that tahoe raises. Names are imported on first use, so only those that need PySpark import
it.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import tahoe.sql as _sql
from tahoe import errors
from tahoe._notebook_errors import shorten_errors as _shorten_errors
from tahoe._notebook_tables import show_tables as _show_tables
from tahoe._other_package import refuse_other_package as _refuse_other_package
from tahoe._version import VERSION as _VERSION

if _TYPE_CHECKING:
    from tahoe import events, exceptions, tables
    from tahoe.catalog.catalog import Catalog
    from tahoe.events.listeners import on
    from tahoe.programs.delta_names import install_as_delta
    from tahoe.spark.api.copy_into import copy_into
    from tahoe.spark.api.delta_table import DeltaTable, DeltaTableBuilder
    from tahoe.spark.api.session import configure, enable
    from tahoe.spark.api.sql import sql
    from tahoe.spark.api.transactions import transaction
    from tahoe.storage.cache.configuration import cache
    from tahoe.table.reading.snapshot import Snapshot
    from tahoe.table.table import Table

__version__ = _VERSION

_FOUND_IN = {
    "Catalog": "tahoe.catalog",
    "Snapshot": "tahoe.table.reading.snapshot",
    "Table": "tahoe.table.table",
    "cache": "tahoe.storage.cache.configuration",
    "configure": "tahoe.spark.api.session",
    "copy_into": "tahoe.spark.api.copy_into",
    "enable": "tahoe.spark.api.session",
    "transaction": "tahoe.spark.api.transactions",
    "on": "tahoe.events.listeners",
    "install_as_delta": "tahoe.programs.delta_names",
    "DeltaTable": "tahoe.spark.api.delta_table",
    "DeltaTableBuilder": "tahoe.spark.api.delta_table",
}

_MODULES = ("errors", "events", "exceptions", "tables")

__all__ = [
    "Catalog",
    "DeltaTable",
    "DeltaTableBuilder",
    "Snapshot",
    "Table",
    "__version__",
    "cache",
    "configure",
    "copy_into",
    "enable",
    "errors",
    "events",
    "exceptions",
    "install_as_delta",
    "on",
    "sql",
    "tables",
    "transaction",
]

if (
    _find_spec("pyspark") is None
):  # names that need PySpark are left out, so that `from tahoe import *` and help(tahoe) work
    __all__[:] = [
        "Catalog",
        "Snapshot",
        "Table",
        "__version__",
        "cache",
        "errors",
        "events",
        "exceptions",
        "on",
    ]  # a list of its own would mislead type checkers

if any(_find_spec(package) is None for package in ("sqlalchemy", "alembic")):
    __all__.remove("Catalog")


def __getattr__(name: str) -> _Any:
    """A name or a module of the package, imported when it is first used. A name that another library has for the same
    raises an error with what to write here.
    """
    if name in _FOUND_IN:
        return getattr(_import_module(_FOUND_IN[name]), name)
    if name in _MODULES:
        return _import_module(f"tahoe.{name}")
    instead = _import_module("tahoe.table.other_names").MODULE.get(name)
    if instead is not None:
        is_import = (
            _sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
        )  # it would hide the reason of an AttributeError
        raise (
            errors.UnknownImportError(name=name, instead=instead)
            if is_import
            else errors.UnknownNameError(owner="tahoe", name=name, instead=instead)
        )
    raise AttributeError(
        f"module 'tahoe' has no attribute {name!r}", name=name, obj=_sys.modules[__name__]
    )  # Python suggests another


def __dir__() -> list[str]:
    return __all__


class _Sql(_ModuleType):
    """Makes the package `tahoe.sql` callable, so that the name is also the function `tahoe.sql(spark, text)`."""

    def __call__(self, spark: _Any, sqlQuery: str, args: _Any = None) -> _Any:  # noqa: N803  PySpark's name
        return _import_module("tahoe.spark.api.sql").sql(spark, sqlQuery, args)


_refuse_other_package(__path__)
_sys.modules[_sql.__name__].__class__ = _Sql
_shorten_errors()
_show_tables()
