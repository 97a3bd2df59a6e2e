"""The reference's Python package `delta`, as tahoe has it: `tahoe.install_as_delta()` and `tahoe run` let `import
delta` find this folder.

Only names are here: what they mean is in `tahoe.tables`, `tahoe.exceptions` and `tahoe.configure`. Imports are
relative, because the package is loaded as `delta`.
"""

from .pip_utils import configure_spark_with_delta_pip
from .tables import DeltaTable
from .version import __version__

__all__ = ["DeltaTable", "__version__", "configure_spark_with_delta_pip"]
