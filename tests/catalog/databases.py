"""A PostgreSQL server on loopback, which ends with the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None if they are not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


def skip_without_programs() -> None:
    if programs() is None and os.environ.get("TAHOE_POSTGRESQL") != "required":
        pytest.skip("PostgreSQL is not installed: scripts/postgresql does it")


@contextmanager
def postgresql() -> Iterator[str]:
    """A server without passwords. Yields its url, to which the name of a database is to be added."""
    where = programs()
    assert where is not None
    folder, port = Path(tempfile.mkdtemp(prefix="tahoe-postgresql-")), _free_port()
    user: list[str] = []
    if os.getuid() == 0:  # the server refuses to be root
        user, owner = ["runuser", "-u", "postgres", "--"], pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder}
    subprocess.run([*user, where / "initdb", "-D", data, "-U", "lake", "-A", "trust", "--no-sync"], **quiet)  # type: ignore[call-overload]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    control = [*user, where / "pg_ctl", "-D", data, "-l", folder / "log", "-w"]
    subprocess.run([*control, "-o", options, "start"], **quiet)  # type: ignore[call-overload]
    try:
        yield f"postgresql+psycopg://lake@127.0.0.1:{port}/"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **quiet)  # type: ignore[call-overload]
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
