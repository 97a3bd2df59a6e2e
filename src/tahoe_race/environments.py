"""An environment for each engine, made once: pip installs what it needs at the versions that `engines` names."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tahoe_race.engines import HERE, Engine

OURS = "tahoe-delta"


def tahoe_requirement() -> str:
    """What pip installs for tahoe: the checkout that this module is in, or the release that is installed here."""
    checkout = HERE.parents[1]
    if (checkout / "pyproject.toml").exists():
        return str(checkout)
    try:
        return f"{OURS}=={version(OURS)}"
    except PackageNotFoundError:
        return OURS


def python_of(name: str, engine: Engine, folder: Path, given: Mapping[str, str]) -> str:
    """The Python that runs an engine: the one that was given, or that of an environment below `folder`."""
    if name in given:
        return given[name]
    home = folder / "environments" / name
    python, done = home / "bin" / "python", home / "installed"
    wanted = "\n".join(engine.requirements).replace("{tahoe}", tahoe_requirement())
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        print(f"installing {engine.label}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted.splitlines()]
        subprocess.run(command, check=True)
        done.write_text(wanted, encoding="utf-8")
    return str(python)
