"""The name `delta` for tahoe: afterwards `from delta.tables import DeltaTable` finds the package `tahoe.delta`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from tahoe.errors import DeltaAlreadyImportedError, OwnDeltaModuleError, PySparkMissingError

PACKAGE = Path(__file__).parents[1] / "delta"


class DeltaFinder:
    """Stands first on the meta path, so that delta-spark's own package is not found."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG004
        return delta_spec() if name == "delta" else None


def install_as_delta() -> None:
    """Make `import delta` find tahoe, in this process: `delta.tables`, `delta.exceptions`, `delta.pip_utils`,
    `delta.connect`.

    Call it before anything imports `delta`, at the top of the main module, so that processes that `multiprocessing`
    spawns call it too. It takes precedence over delta-spark's Python package, if that is installed. A second call
    changes nothing. `tahoe run` does it for a program that cannot be changed.

    Raises:
        DeltaAlreadyImportedError: another `delta` was imported before.
        OwnDeltaModuleError: the program has a module of its own that is called `delta`.
        ReferenceJarPresentError: the running Spark session has the reference's JAR.
        PySparkMissingError: PySpark is not installed.
    """
    if find_spec("pyspark") is None:
        raise PySparkMissingError
    present = sys.modules.get("delta")
    if present is not None and not _is_ours(present):
        raise DeltaAlreadyImportedError(location=getattr(present, "__file__", None) or "a module without a file")
    if present is None and (own := _own_module()) is not None:
        raise OwnDeltaModuleError(location=own)
    if "pyspark.sql" in sys.modules:
        from tahoe.spark.api.programs import check_running_session  # noqa: PLC0415  a program may call this before it needs PySpark

        check_running_session()
    if not any(isinstance(finder, DeltaFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, DeltaFinder())


def delta_spec() -> ModuleSpec | None:
    """The package `tahoe.delta` under the name `delta`; None if the program has a module of its own with that name,
    which stays.
    """
    if _own_module() is not None:
        return None
    return spec_from_file_location("delta", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)])


def _own_module() -> str | None:
    """The file of a module called `delta` that is not the reference's. A folder without `__init__.py`, such as one with
    data, is none.
    """
    found = PathFinder.find_spec("delta")
    if found is None or found.origin is None:
        return None
    is_reference = any(Path(folder, "pip_utils.py").exists() for folder in found.submodule_search_locations or ())
    return None if is_reference else found.origin


def _is_ours(module: ModuleType) -> bool:
    return [Path(folder) for folder in getattr(module, "__path__", ())] == [PACKAGE]
