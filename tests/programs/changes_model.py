"""AutoCDC flows of each kind into Delta tables (`auto_cdc`), and a model in Python of what they make of all changes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyspark

import tahoe
from tests.programs.command import RUN as WITH_TAHOE

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [*WITH_TAHOE, str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run"]
FLOWS = Path(__file__).with_name("auto_cdc.py")
COLUMNS = "id INT, name STRING, city STRING, seq INT, op STRING"
IN_SQL = """
CREATE STREAMING TABLE in_sql USING delta;
CREATE FLOW of_sql AS AUTO CDC INTO in_sql FROM STREAM(events) KEYS (id) APPLY AS DELETE WHEN op = 'D' SEQUENCE BY seq
COLUMNS * EXCEPT (op) STORED AS SCD TYPE 1;
"""
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
PERSISTENT = {"spark.sql.catalogImplementation": "hive"}


class Event(NamedTuple):
    id: int
    name: str
    city: str
    seq: int
    op: str = "U"


def random_events(seed: int, count: int) -> list[Event]:
    """Changes of ten keys in random order, with late ones, deletes, and the same ones twice. Different changes have
    different numbers.
    """
    chance = random.Random(seed)
    events = [
        Event(chance.randrange(10), f"n{number}", chance.choice(["rome", "oslo"]), 10 * number, chance.choice("UUUD"))
        for number in range(seed * count, (seed + 1) * count)
    ]
    late = [event._replace(seq=event.seq - 5 * count - 5) for event in chance.sample(events, 3)]
    events += late + chance.sample(events, 3)
    chance.shuffle(events)
    return events


class Pipeline:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        for name in ("changes", "transformations", "conf"):
            (folder / name).mkdir()
        settings = {**SETTINGS, **PERSISTENT, "spark.sql.warehouse.dir": str(folder / "warehouse")}
        (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{n} {v}\n" for n, v in settings.items()))
        spec = ["name: changes", f"storage: file://{folder}/storage", "libraries:"]
        spec += ["  - glob:", "      include: transformations/**"]
        (folder / "spark-pipeline.yml").write_text("\n".join(spec))
        (folder / "transformations" / "flows.sql").write_text(IN_SQL)
        self.columns(COLUMNS)

    def columns(self, columns: str) -> None:
        flows = FLOWS.read_text().replace("{columns}", columns).replace("{root}", str(self.folder))
        (self.folder / "transformations" / "flows.py").write_text(flows)

    def add(self, events: Iterable[Event], **more: Any) -> None:
        lines = [json.dumps({**event._asdict(), **more}) for event in events]
        self.events += events
        (self.folder / "changes" / f"{len(self.events):05}.json").write_text("\n".join(lines))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_CONF_DIR": str(self.folder / "conf"), "PYTHONPATH": str(ROOT / "src")}
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=self.folder,
            start_new_session=True,
        )

    def update(self, *arguments: str) -> None:
        program = self.start(*arguments)
        output, _ = program.communicate(timeout=600)
        assert program.returncode == 0, output[-4000:]

    def killed(self, seconds: float) -> bool:
        """Whether an update was killed so many seconds behind its start; it may have ended before."""
        program = self.start()
        try:
            program.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.communicate()
            return True
        return False

    def rows(self, name: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        table = tahoe.Table(str(self.folder / "warehouse" / name))
        return sorted((tuple(row.values()) for row in table.to_arrow(list(columns)).to_pylist()), key=repr)

    def check(self, mirrored: int = 1) -> None:
        """All tables are what the model makes of all events. A sink has them as often as they were read: Spark clears
        no sink.
        """
        current = newest(self.events)
        for name in ("current", "in_sql"):
            assert self.rows(name, ["id", "name", "city", "seq"]) == in_order(e[:4] for e in current), name
        assert self.rows("named", ["id", "name"]) == in_order(e[:2] for e in current)
        spans = ["id", "name", "city", "__START_AT", "__END_AT"]
        assert self.rows("history", spans) == in_order(history(self.events, ("name", "city")))
        assert self.rows("moves", spans) == in_order(history(self.events, ("city",)))
        counted: dict[str, int] = defaultdict(int)
        for event in current:
            counted[event.city] += 1
        for name, times in (("halves", 1), ("../mirror", mirrored)):
            assert self.rows(name, Event._fields) == in_order(self.events * times), name
        assert self.rows("by_city", ["city", "count"]) == in_order(counted.items())


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def of_keys(events: Iterable[Event]) -> Iterable[list[Event]]:
    """The changes of each key by their numbers, each of them once."""
    keys: dict[int, set[Event]] = defaultdict(set)
    for event in events:
        keys[event.id].add(event)
    return [sorted(changes, key=lambda event: event.seq) for changes in keys.values()]


def newest(events: Iterable[Event]) -> list[Event]:
    """SCD type 1: the newest row of each key that is not deleted."""
    return [changes[-1] for changes in of_keys(events) if changes[-1].op != "D"]


def history(events: Iterable[Event], tracked: Sequence[str]) -> list[tuple[Any, ...]]:
    """SCD type 2: a row for each span in which the tracked columns stayed the same, as its newest change left it."""
    found = []
    for changes in of_keys(events):
        spans: list[list[Any]] = []
        for event in changes:
            if spans and spans[-1][2] is None:
                if event.op != "D" and all(getattr(spans[-1][0], c) == getattr(event, c) for c in tracked):
                    spans[-1][0] = event
                    continue
                spans[-1][2] = event.seq
            if event.op != "D":
                spans.append([event, event.seq, None])
        found += [(event.id, event.name, event.city, start, end) for event, start, end in spans]
    return found
