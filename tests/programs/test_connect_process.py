"""The process of `tahoe connect-server`: what it refuses to start with, and how signals end it.

`test_connect_server.py` is about its clients.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.programs.connect_servers import PATIENCE_SECONDS, Gate, Running, command, serving, until


def test_what_would_be_open_to_all_is_refused_before_anything_starts(tmp_path):
    for options, said in (
        (["--host", "0.0.0.0"], "token"),
        (["--conf", "spark.connect.grpc.binding.port=1"], "--port"),
        (["--conf", "spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin"], "SparkConnectPlugin"),
    ):
        done = subprocess.run(
            command(tmp_path, *options), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 2
        assert "DELTA_CONNECT_SERVER" in done.stderr
        assert said in done.stderr


def test_a_second_signal_ends_the_server_at_once(tmp_path):
    """Though a query runs that would be waited for."""
    with serving(tmp_path) as server:
        gate = Gate(tmp_path)
        slow = Running(gate, gate.rows(server.client()).collect)
        server.process.send_signal(signal.SIGINT)
        until(lambda: "shutting down" in server.errors)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE_SECONDS) == 128 + signal.SIGINT
        assert "Traceback" not in server.errors
        assert slow.result is None


@pytest.fixture
def container() -> list[str]:
    """A command that starts another as the first process of a namespace, which is what a container does."""
    words = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        *(["--map-root-user"] if os.geteuid() else []),
    ]
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("NOT TESTED: the server as the first process of a container, because there is no unshare")
    if tried.returncode:
        pytest.skip(
            f"NOT TESTED: the server as the first process of a container, which this machine does not permit: "
            f"{tried.stderr}"
        )
    return words


def test_the_first_process_of_a_container_shuts_down(tmp_path, container):
    """Such a process receives only signals for which it has a handler."""
    with serving(tmp_path, under=container) as server:
        (first,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
        assert Path(f"/proc/{first}/status").read_text().split("NSpid:")[1].split("\n")[0].split()[-1] == "1"
        server.client().range(1).write.format("delta").save(f"{tmp_path}/t")
        os.kill(int(first), signal.SIGTERM)
        assert server.process.wait(PATIENCE_SECONDS) == 0
        assert "shutting down" in server.errors
        assert (tmp_path / "t/_delta_log/00000000000000000000.crc").exists()
