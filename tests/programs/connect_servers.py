"""Servers by `tahoe connect-server`, and queries of which a test knows that they run, and which end when it says so."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.session import SparkSession as ConnectSession

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "open sesame"
SETTINGS = (
    "spark.master=local[2]",
    "spark.sql.shuffle.partitions=2",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
    "spark.sql.session.timeZone=UTC",
    "spark.python.authenticate.socketTimeout=5m",  # Spark's 15 seconds are too few for a worker on a busy machine
)
PATIENCE_SECONDS = 300

# When Python ends, each of PySpark's clients that is not stopped asks its server for something: ten minutes long, if it
# has gone.
SparkConnectClient._cleanup_ml_cache = lambda self: None


@dataclass
class Server:
    process: subprocess.Popen[str]
    url: str
    said: str
    folder: Path

    def client(self) -> SparkSession:
        session = SparkSession.builder.remote(f"{self.url}/;token={TOKEN}").create()
        ConnectSession._default_session = ConnectSession._active_session.session = (
            session  # functions ask the default session for settings
        )
        return session

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def errors(self) -> str:
        return (self.folder / "stderr").read_text()


def command(folder: Path, *options: str) -> list[str]:
    settings = [part for text in (*SETTINGS, f"spark.sql.warehouse.dir={folder}/names") for part in ("--conf", text)]
    return [
        sys.executable,
        "-c",
        "from tahoe.cli import main; main()",
        "connect-server",
        "--port",
        "0",
        *settings,
        *options,
    ]


@contextmanager
def serving(folder: Path, *options: str, under: Sequence[str] = ()) -> Iterator[Server]:
    """A server in a process of its own, which is killed at the end.

    Args:
        under: a command that starts it.
    """
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": f"{ROOT}/src"}
    for name in ("PYSPARK_PYTHON", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [*under, *command(folder, *options)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=folder,
        )
    late = threading.Timer(PATIENCE_SECONDS, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        late.cancel()
        assert said.startswith("ready: sc://"), said + (folder / "stderr").read_text()[-3000:]
        yield Server(process, said.split()[1], said, folder)
    finally:
        late.cancel()
        process.kill()
        process.wait(PATIENCE_SECONDS)
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)  # set by PySpark's clients for the whole process


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_SECONDS} seconds"
        time.sleep(0.05)


class Gate:
    """Where a query waits until it is opened."""

    def __init__(self, folder: Path) -> None:
        self._reached, self._opened = folder / "reached", folder / "opened"

    def waiting(self) -> Callable[[], None]:
        """What functions of the query call, in Python workers of the server."""
        reached, opened, seconds = self._reached, self._opened, 2 * PATIENCE_SECONDS

        def wait() -> None:
            reached.touch()
            end = time.monotonic() + seconds
            while not opened.exists() and time.monotonic() < end:
                time.sleep(0.02)

        return wait

    def rows(self, session: SparkSession) -> DataFrame:
        """Three rows that come when the gate is open."""
        wait = self.waiting()

        def slowly(batches: Any) -> Any:
            wait()
            yield from batches

        return session.range(3).coalesce(1).mapInArrow(slowly, "id long")

    def is_reached(self) -> bool:
        return self._reached.exists()

    def open(self) -> None:
        self._opened.touch()


class Running:
    """An action in a thread, whose query has come to a gate."""

    def __init__(self, gate: Gate, action: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._action = action
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(lambda: gate.is_reached() or self.has_ended())
        assert gate.is_reached(), self.error

    def _run(self) -> None:
        try:
            self.result = self._action()
        except BaseException as error:
            self.error = error

    def has_ended(self) -> bool:
        return not self._thread.is_alive()
