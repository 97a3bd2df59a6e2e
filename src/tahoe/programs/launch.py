"""`tahoe run`: which process a program is, and what its environment adds to it. The program replaces this process."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tahoe.errors import (
    ClusterModeError,
    ProgramNotExecutableError,
    ProgramNotFoundError,
    ProgramWithoutPythonError,
    ProgramWithoutTahoeError,
    PythonOptionError,
)
from tahoe.native_settings import NATIVE_VARIABLE, native_settings, obstacle
from tahoe.reference_settings import defaults, overrides, submit_arguments_without_reference, submitted_settings

STARTUP = Path(__file__).with_name("startup")
"""The folder that stands first on PYTHONPATH."""

PYTHON_FILES = (".py", ".pyw", ".pyz", ".zip")
SUBMITTERS = ("spark-submit", "spark-submit.cmd", "pyspark", "pyspark.cmd")
WITHOUT_PYTHON = ("spark-shell", "spark-sql", "spark-beeline", "beeline", "sparkR", "start-thriftserver.sh")

# Options with which Python ignores PYTHONPATH, or does not load `site`; alone or among others: -I, -sE.
_DEAF = re.compile(r"-[a-zA-Z]*[EIS]")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?", re.IGNORECASE)
_SHEBANG = re.compile(
    rb"#!\s*(?:/usr/bin/env\s+)?(\S*python[\d.]*)\b|#!/bin/sh\s+'''exec' \"?([^\"\n]*?python[\d.]*)\"?\s"
)


def run_program(words: Sequence[str], *, native: bool = False) -> NoReturn:
    """Run a program as it is, with every Spark session that it makes enabled: the program takes the place of this
    process.

    Args:
        words: a Python file, the name of a command, or options of Python such as `-m MODULE`; then the program's own
            arguments.
        native: its sessions run plans natively, as with `tahoe.configure(builder, native=True)`.

    Raises:
        DeltaProgramError: the program cannot be run so that its sessions are enabled.
    """
    command = command_of(words, native=native)
    added = environment(os.environ)
    if native:
        added[NATIVE_VARIABLE] = "true"
    if os.path.basename(command[0]) in SUBMITTERS:
        added.setdefault("PYSPARK_DRIVER_PYTHON", added.get("PYSPARK_PYTHON", sys.executable))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.name == "nt":  # where exec starts a second process, and does not wait for it
        raise SystemExit(subprocess.call(command, env=added))
    signal.signal(
        signal.SIGPIPE, signal.SIG_DFL
    )  # Python ignores it, and a program that is no Python would go on doing so
    try:
        os.execve(command[0], command, added)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        raise ProgramNotExecutableError(
            program=words[0], reason="the file has no line `#!` that names its interpreter"
        ) from error


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, with the folder that enables Spark sessions first on PYTHONPATH."""
    others = [place for place in variables.get("PYTHONPATH", "").split(os.pathsep) if place != str(STARTUP)]
    return {**variables, "PYTHONPATH": os.pathsep.join([str(STARTUP), *(others if any(others) else ())])}


def command_of(words: Sequence[str], *, native: bool = False) -> list[str]:
    """The command line of a program: the path of an executable, and its arguments. Those of spark-submit tell whether
    it is native.
    """
    program, *arguments = words
    if program.startswith("-"):
        return [sys.executable, *_checked_options(words)]
    if program.endswith(PYTHON_FILES) and os.path.isfile(program):
        return [sys.executable, *words]
    name = os.path.basename(program)
    if name in WITHOUT_PYTHON:
        raise ProgramWithoutPythonError(program=name)
    scripts = sysconfig.get_path("scripts")
    found = shutil.which(program, path=os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]))
    if found is None and os.path.isfile(os.path.join(program, "__main__.py")):  # a folder that Python runs
        return [sys.executable, *words]
    if found is None and os.path.isfile(program):
        raise ProgramNotExecutableError(
            program=program, reason="the file is not executable, and its name does not end in .py"
        )
    if found is None:
        raise ProgramNotFoundError(program=program, scripts=scripts)
    _check_interpreter(found)
    if _PYTHON.fullmatch(name):
        _checked_options(arguments)  # refuses options by which Python would not load tahoe
    return [found, *(_spark_submit_arguments(found, arguments, native=native) if name in SUBMITTERS else arguments)]


def _checked_options(words: Sequence[str]) -> Sequence[str]:
    """The words, if Python lets us in: options before the program must not close it."""
    takes_value = False
    for word in words:
        if not takes_value and (not word.startswith("-") or word[:2] in ("-m", "-c")):
            break
        if not takes_value and word[:2] not in ("-X", "-W") and _DEAF.match(word):
            raise PythonOptionError(option=word)
        takes_value = not takes_value and word in ("-X", "-W", "--check-hash-based-pycs")
    return words


def _check_interpreter(path: str) -> None:
    """Refuse a Python that has no tahoe, or a script of one."""
    interpreter = path if _PYTHON.fullmatch(os.path.basename(path)) else _interpreter_of(path)
    if interpreter is None or os.path.dirname(interpreter) == os.path.dirname(sys.executable):
        return
    asked = [interpreter, "-c", "import sys, importlib.util; sys.exit(importlib.util.find_spec('tahoe') is None)"]
    if subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0:
        raise ProgramWithoutTahoeError(program=path, interpreter=interpreter)


def _interpreter_of(path: str) -> str | None:
    """The Python of a script, from its first lines; None for any other program."""
    with open(path, "rb") as file:
        found = _SHEBANG.match(file.read(1000))
    if found is None:
        return None
    interpreter = os.fsdecode(found[1] or found[2])
    return interpreter if os.path.isabs(interpreter) else shutil.which(interpreter)


def _spark_submit_arguments(path: str, arguments: Sequence[str], *, native: bool) -> list[str]:
    """The arguments of spark-submit without the reference's settings, also where a file of defaults names them; with
    those of Comet.
    """
    rest = submit_arguments_without_reference(arguments)
    named = submitted_settings(rest)
    home = os.environ.get("SPARK_HOME") or Path(path).resolve().parents[1]
    of_file = defaults(Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf")), named.get("--properties-file"))
    if {**of_file, **named}.get("spark.submit.deployMode") == "cluster":
        raise ClusterModeError
    added = _native_arguments(str(home), {**of_file, **named}) if native else []
    return [*overrides(of_file, named), *added, *rest]


def _native_arguments(home: str, settings: Mapping[str, str]) -> list[str]:
    """Arguments of spark-submit that let plans run natively; none where they cannot, which a line on standard error
    tells.
    """
    jars = os.path.join(home, "jars")
    (core, *_) = glob.glob(os.path.join(jars, "spark-core_*.jar")) or ["spark-core_unknown-0.jar"]
    version = os.path.basename(core).removesuffix(".jar").rpartition("-")[2]
    reason = obstacle(version, None, settings, jars)
    if reason is not None:
        print(f"warning: {reason}", file=sys.stderr)
        return []
    return [
        part
        for name, value in native_settings(settings, version, jars).items()
        for part in ("--conf", f"{name}={value}")
    ]
