"""What `tahoe run` adds to the Python of a program and of its child processes: the folder of this file stands first on
PYTHONPATH.

It costs an interpreter nothing and harms none. It imports nothing of tahoe until a program makes a Spark session or
imports `delta`, it does nothing in a Python that has no tahoe, and the `sitecustomize` that was there before runs as
well. Any Python may run this file, an old one too. An interpreter on Databricks is left alone.
"""

import os
import sys

# Which functions of PySpark are replaced, and with what of `tahoe.spark.api.programs`. Only the driver calls them.
HOOKS = {
    "pyspark.core.context": (("SparkContext", "_ensure_initialized", "initialize"),),
    "pyspark.sql.session": (
        ("SparkSession", "__init__", "make_session"),
        ("SparkSession.Builder", "getOrCreate", "get_or_create"),
        ("SparkSession.Builder", "create", "create"),
    ),
    "pyspark.sql.connect.session": (
        ("SparkSession.Builder", "getOrCreate", "get_or_create"),
        ("SparkSession.Builder", "create", "create"),
    ),
    "pyspark.pipelines.init_cli": (("", "init", "init_pipeline"),),
}


class Finder(object):
    """Stands first on the meta path: finds `delta`, and hooks PySpark's modules when they have been loaded."""

    hooks_pyspark = True

    def __init__(self):
        self.asking = set()

    def find_spec(self, name, path=None, target=None):
        """The spec of `delta`, or of a module to hook, found by the other finders; None for other modules. `asking` has
        the modules that are being searched for: a finder that searches by itself would end here again.
        """
        if name == "delta":
            return delta_spec()
        if name not in HOOKS or name in self.asking:
            return None
        self.asking.add(name)
        try:
            found = (
                finder.find_spec(name, path, target)
                for finder in sys.meta_path
                if finder is not self and hasattr(finder, "find_spec")
            )
            spec = next((spec for spec in found if spec is not None), None)
        finally:
            self.asking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = Loader(spec.loader)
        return spec


class Loader(object):
    """Loads a module as its own loader does, and hooks it."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        hook(module)


def delta_spec():
    """Where the package `delta` is found, or None: then Python goes on to search."""
    try:
        from tahoe.programs.delta_names import delta_spec as spec
    except ImportError:  # this Python has no tahoe, or an old one
        return None
    return spec()


def hook(module):
    """Replace the functions of one of PySpark's modules."""
    for place, name, replacement in HOOKS[module.__name__]:
        owner = module
        for part in filter(None, place.split(".")):
            owner = getattr(owner, part)
        found = owner.__dict__[name]
        if isinstance(found, classmethod):
            setattr(owner, name, classmethod(replaced(found.__func__, replacement)))
        else:
            setattr(owner, name, replaced(found, replacement))


def replaced(original, replacement):
    """A function that passes the original one and its arguments to the function `replacement` of
    `tahoe.spark.api.programs`. In a Python without tahoe it is the original one.
    """
    from functools import wraps

    @wraps(original)
    def call(*args, **kwargs):
        from importlib.util import find_spec

        if find_spec("tahoe") is None:
            return original(*args, **kwargs)
        from tahoe.spark.api import programs

        return getattr(programs, replacement)(original, *args, **kwargs)

    return call


def install():
    """Hook this interpreter, once."""
    if "DATABRICKS_RUNTIME_VERSION" in os.environ or any(hasattr(finder, "hooks_pyspark") for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder())
    for name in HOOKS:
        if name in sys.modules:
            hook(sys.modules[name])


def run_next():
    """Run the `sitecustomize` that would have run without this one."""
    from importlib.machinery import PathFinder

    here = os.path.realpath(os.path.dirname(os.path.abspath(__file__)))
    spec = PathFinder.find_spec(
        "sitecustomize", [place for place in sys.path if os.path.realpath(place or os.curdir) != here]
    )
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


if __name__ == "sitecustomize" and sys.version_info >= (3, 4):
    install()
    run_next()
