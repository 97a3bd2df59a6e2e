"""Runs `tahoe catalog`, and its server in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from tahoe.cli.app import app


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["catalog", *arguments])


def fine(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return str(done.stdout)


@contextmanager
def serving(url: str, *options: str, said: int = subprocess.PIPE) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address. What it says of many calls fills a pipe: it then waits."""
    code = "from tahoe.cli import main; main()"
    command = [sys.executable, "-c", code, "catalog", "serve", url, "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if not first.startswith("ready: "):
                process.kill()
                pytest.fail(str(process.communicate()[1]))
            yield process, first.removeprefix("ready: ").strip()
        finally:
            process.kill()
