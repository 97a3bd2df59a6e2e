"""A plugin of pytest that does for the tests what `tahoe run` does for a program: `pytest -p
tahoe.programs.pytest_plugin`.

It is not loaded by itself. Processes of pytest-xdist get the same from their environment.
"""

from __future__ import annotations

import importlib.util
import os

from tahoe.programs.launch import STARTUP, environment


def pytest_load_initial_conftests() -> None:
    """Hook this process and those that it starts, before the first conftest.py is imported."""
    os.environ.update(environment(os.environ))
    spec = importlib.util.spec_from_file_location("tahoe_startup", STARTUP / "sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    startup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(startup)
    startup.install()
