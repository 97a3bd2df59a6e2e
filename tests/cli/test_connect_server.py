"""`tahoe connect-server` without Java; and with a server that does nothing: what signals do to the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

PROGRAM = """
import os, signal, sys
from types import SimpleNamespace
from tahoe.cli import main
from tahoe.spark.api.connect import server as connect_server

class Late:
    def __del__(self, kill=os.kill, process=os.getpid(), signal=signal.SIGTERM):
        kill(process, signal)

def stop(drain):
    print("stopped", end="")
    return 0

late = Late()
connect_server.serve = lambda serving: SimpleNamespace(url="sc://localhost:1", spark_version="0", stop=stop)
sys.argv = ["tahoe", "connect-server"]
main()
"""


def test_without_java_a_message_says_what_is_missing(tmp_path):
    program = [
        sys.executable,
        "-c",
        "import sys; from tahoe.cli import main; sys.argv[1:] = ['connect-server', '--port', '0']; main()",
    ]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 2, done.stderr
    assert "[DELTA_CONNECT_SERVER]" in done.stderr
    assert "Spark needs Java 17 or newer, on the path or in JAVA_HOME" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_signal_while_python_ends_does_not_change_the_exit_code():
    """Python takes its modules apart when it has put back the default handlers."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready: ")
        process.send_signal(signal.SIGTERM)
        said, errors = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, "stopped")
    assert errors == "tahoe connect-server: shutting down; running queries may finish\n"
