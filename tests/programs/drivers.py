"""Starts programs with Spark in processes of their own, which a test kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def driver(program: Path, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A driver that has Spark: `program FOLDER ARGUMENTS...`, which prints `enabled` then. It uses the classes that an
    earlier one has compiled, and, as it was killed, not deleted.
    """
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    compiled = sorted(path.parent.parent for path in temporary.glob("tahoe-classes-*/delta/DefaultSource.class"))
    environment = os.environ | {"TMPDIR": str(temporary), "SPARK_DIST_CLASSPATH": str(next(iter(compiled), ""))}
    command = [sys.executable, str(program), str(folder), *arguments]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, text=True, env=environment)
    expect("enabled", started)
    return started


def expect(line: str, program: subprocess.Popen[str]) -> None:
    """Wait until a program prints a line."""
    assert program.stdout is not None
    assert any(found.strip() == line for found in program.stdout), "the driver has ended"


def kill(program: subprocess.Popen[str]) -> None:
    """End a driver, and its JVM, without a chance to do anything."""
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
