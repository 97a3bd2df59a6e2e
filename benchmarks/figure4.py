"""Figure 4 of the paper: 33,000,000 rows in 1,000 to 1,000,000 partitions, on a local disk and on an object store that
is 30 ms away, by tahoe, by the reference, and as Parquet by Spark alone.

Each system has a Spark session of the same version in a process of its own, and opens a fresh copy of the log. The
systems take turns. A step that takes longer than the limit ends its process, and counts as "longer than the limit".

    python -m benchmarks.figure4 --points 1000,10000 --storages local --rounds 3 --limit 120 --out FILE.json

`figure4_page` makes the page of such files. A million partitions need 5 GB of disk, 1,000,000 inodes and 6 GB of
memory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.beside_reference import ENVIRONMENTS, JARS, ROOT
from benchmarks.figure4_table import PartitionedTable, the_table
from benchmarks.measure import CACHE, FOLDER
from benchmarks.run import describe_machine
from benchmarks.slow_storage import BUCKET, SlowStorage, slow_storage

POINTS = (1_000, 10_000, 100_000, 1_000_000)
SYSTEMS = ("tahoe", "reference", "parquet")
STEPS = ("open", "one", "plan", "sum", "show", "delete", "append")
_OF_OPEN_TABLE = ("one", "plan", "sum", "show")

# Tasks that wait for a store do not need a core each.
_TASKS = {"local": "local[*]", "s3": "local[16]"}
_S3_JARS = CACHE / "s3-jars"
_START_SECONDS_MAX = 300


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measurement of one step.

    Attributes:
        seconds: None if the step failed or took longer than the limit.
        processor_seconds: of all processes of the system, which other programs delay less than a clock tells.
        megabytes: the peak memory of the system's processes up to the end of the step.
        failure: why there is no time; empty if there is one.
    """

    storage: str
    partitions: int
    system: str
    step: str
    seconds: float | None
    processor_seconds: float | None = None
    megabytes: float | None = None
    failure: str = ""
    requests: int = 0


class System:
    """A worker process.

    Args:
        limit: seconds that a step may take.
    """

    def __init__(self, name: str, url: str, partitions: int, settings: Mapping[str, str], limit: float) -> None:
        home = ENVIRONMENTS["tahoe" if name == "tahoe" else "reference"]
        places = [ROOT / "src", ROOT] if name == "tahoe" else [ROOT]
        python = str(home / "bin" / "python")
        environment = {**os.environ, "PYSPARK_PYTHON": python, "PYTHONPATH": os.pathsep.join(map(str, places))}
        command = [python, "-m", "benchmarks.figure4_worker", name, url, str(partitions), json.dumps(settings)]
        self._limit = limit
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("VERBOSE") else subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        assert "ready" in self._answer(_START_SECONDS_MAX), f"no session of {name} within {_START_SECONDS_MAX} s"

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def ask(self, step: str) -> dict[str, Any]:
        """What a step has told; an `error` if it failed or took too long. In the latter case the process has ended."""
        assert self._process.stdin is not None
        print(step, file=self._process.stdin, flush=True)
        return self._answer(self._limit)

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self._kill()
            return {"error": f"> {seconds:g} s"}
        line = self._process.stdout.readline()
        if not line:
            return {"error": f"the process has ended with {self._process.wait()}"}
        told: dict[str, Any] = json.loads(line)
        return told

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is not None:
            return
        try:
            self._process.communicate(timeout=_START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._kill()


def settings_of(system: str, memory: str, storage: str, server: SlowStorage | None) -> dict[str, str]:
    folders = [JARS] if system == "reference" else []
    settings = {
        "spark.master": _TASKS[storage],
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if server is not None:
        folders.append(_S3_JARS)
        options = server.options
        settings |= {
            "spark.hadoop.fs.s3a.endpoint": options["endpoint"],
            "spark.hadoop.fs.s3a.endpoint.region": options["region"],
            "spark.hadoop.fs.s3a.access.key": options["aws_access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": options["aws_secret_access_key"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.maximum": "200",
        }
    jars = sorted(str(jar) for folder in folders for jar in folder.glob("*.jar"))
    return settings | ({"spark.driver.extraClassPath": os.pathsep.join(jars)} if jars else {})


class Round:
    """One system in one round. Its process is started again if a step has ended it."""

    def __init__(self, table: PartitionedTable, start: Callable[[], System]) -> None:
        self._table, self._start = table, start
        self._process: System | None = None
        self._is_open, self._failure = False, ""

    def told(self, step: str) -> dict[str, Any]:
        """What a step has told: its time and answer, or an `error`. The table is opened for it, if it is not yet."""
        if step == "open" and self._failure:
            return {"error": self._failure}
        if step in _OF_OPEN_TABLE and not self._is_open and "error" in (opened := self.told("open")):
            return opened
        if self._process is None:
            self._process = self._start()
        answer = self._process.ask(step)
        if self._process.is_over:
            self._process, self._is_open = None, False
        if step == "open":
            self._is_open, self._failure = "error" not in answer, answer.get("error", "")
        if "error" not in answer:
            _check(self._table, step, answer["answer"])
        return answer

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


def measured(
    table: PartitionedTable, storage: str, system: str, steps: Sequence[str], limit: float, memory: str
) -> Iterator[Figure]:
    """The figures of one system in one round."""
    table.renew()
    with _server(table, storage) as server:
        url = str(table.folder) if server is None else f"s3a://{BUCKET}/t"
        settings = settings_of(system, memory, storage, server)
        this = Round(table, lambda: System(system, url, table.partitions, settings, limit))
        for step in steps:
            if step == "delete" and system == "parquet":
                continue  # Spark has no statement that deletes partitions of a folder
            if server is not None:
                server.reset()
            told = this.told(step)
            yield Figure(
                storage=storage,
                partitions=table.partitions,
                system=system,
                step=step,
                seconds=told.get("seconds"),
                processor_seconds=told.get("processor_seconds"),
                megabytes=told.get("megabytes"),
                failure=told.get("error", ""),
                requests=0 if server is None else server.requests.total(),
            )
        this.stop()


@contextmanager
def _server(table: PartitionedTable, storage: str) -> Iterator[SlowStorage | None]:
    if storage == "local":
        yield None
        return
    lake = table.folder.with_name(f"lake-{table.partitions}")
    lake.mkdir(exist_ok=True)
    if not (lake / "t").exists():
        (lake / "t").symlink_to(table.folder)
    with slow_storage(lake) as server:
        yield server


def _check(table: PartitionedTable, step: str, answer: object) -> None:
    last = (5 * 7919 + 17) % table.partitions
    expected = {
        "open": table.sum_of(13),
        "one": table.sum_of(last),
        "sum": table.total,
        "show": table.partitions,
    }.get(step)
    assert answer == expected, f"{step} has answered {answer} instead of {expected}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", default=",".join(map(str, POINTS)), help="numbers of partitions")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--storages", default="local,s3")
    parser.add_argument("--steps", default=",".join(STEPS), help="in this order, for each system")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds that a step may take")
    parser.add_argument("--memory", default="4g", help="of the JVM's heap")
    parser.add_argument("--folder", type=Path, default=FOLDER / "figure4", help="where the tables are made")
    parser.add_argument("--note", default="", help="kept with the results")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    systems, figures = given.systems.split(","), []
    for partitions in map(int, given.points.split(",")):
        table = the_table(given.folder / str(partitions), partitions)
        for storage in given.storages.split(","):
            for number in range(given.rounds):
                for system in systems if number % 2 == 0 else systems[::-1]:
                    steps = given.steps.split(",")
                    for figure in measured(table, storage, system, steps, given.limit, given.memory):
                        figures.append(figure)
                        print(_line(figure), file=sys.stderr, flush=True)
                    if given.out is not None:
                        given.out.write_text(json.dumps(_told(given, figures), indent=1))
        table.renew()


def _line(figure: Figure) -> str:
    what = f"{figure.storage} {figure.partitions:>9,} {figure.system:<9} {figure.step:<6}"
    if figure.seconds is None:
        return f"{what} {figure.failure}"
    cost = f"{figure.processor_seconds:8.2f} CPU s {figure.megabytes:6.0f} MB {figure.requests:>7} requests"
    return f"{what} {figure.seconds:8.2f} s {cost}"


def _told(given: argparse.Namespace, figures: Sequence[Figure]) -> dict[str, Any]:
    return {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "memory": given.memory,
        "limit": given.limit,
        "note": given.note,
        "figures": [asdict(figure) for figure in figures],
    }


if __name__ == "__main__":
    main()
