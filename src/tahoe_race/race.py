"""The race: each engine in its own process, turn by turn, with answers that are compared."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tahoe_race import answers
from tahoe_race.engines import DATA, ENGINES, SIDES
from tahoe_race.environments import python_of
from tahoe_race.questions import SHARES, SUMS, Course, Question, questions
from tahoe_race.tables import copy_of, generated, without_log

# Who can write the tables that all read, in the order in which they are asked.
WRITERS = ("delta-spark", "tahoe", "tahoe-comet", "delta-rs")


@dataclass
class Result:
    """What one engine did with one question.

    Attributes:
        seconds: of each counted round.
        error: why there are none: what the engine said, or that its rows are others.
    """

    question: str
    group: str
    engine: str
    seconds: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds and not self.error else None


class Side:
    """The process of an engine."""

    def __init__(self, name: str, python: str, jars: str, folder: Path) -> None:
        script = SIDES / ENGINES[name].side
        environment = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        if name not in ("tahoe", "tahoe-comet"):
            environment.pop("PYTHONPATH", None)
        arguments = [name, jars or ENGINES[name].coordinate, str(folder)] if script.stem == "spark_side" else []
        self.name = name
        self.tables_of = ""
        self._log = (folder / f"{name}.log").open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            [python, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )
        answer = self._answer()
        self.version = str(answer.get("version") or answer["error"])

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The seconds and the rows of an operation, or the error."""
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, "with": arguments}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return {"error": f"its process has ended with {self._process.wait()}; see {self._log.name}"}
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return {"error": f"its process has ended with {self._process.wait()}; see {self._log.name}"}
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


@dataclass(frozen=True)
class Race:
    """What is raced, by whom, where.

    Attributes:
        engines: their names, in the order of the charts.
        groups: of questions.
        scale: of TPC-H and TPC-DS.
        rounds: that are counted, after one that is not.
        pythons, jars: of engines that are installed already.
    """

    engines: Sequence[str]
    groups: Sequence[str]
    scale: str
    rounds: int
    folder: Path
    pythons: Mapping[str, str] = field(default_factory=dict)
    jars: Mapping[str, str] = field(default_factory=dict)

    def run(self, tell: Callable[[Sequence[Result], Mapping[str, str]], None]) -> None:
        """Race.

        Args:
            tell: is called after each question, with the results so far and the version of each engine.
        """
        self.writer()
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            sides = {}
            for name in self.engines:
                sides[name] = self._side(name)
                stack.callback(sides[name].stop)
            course = self._course(sides)
            found: list[Result] = []
            for question in questions(course, list(self.groups)):
                found += self._asked(question, course, sides)
                tell(found, {name: side.version for name, side in sides.items()})

    def _side(self, name: str) -> Side:
        python = python_of(name, ENGINES[name], self.folder, self.pythons)
        return Side(name, python, self.jars.get(name, ""), self.folder)

    def writer(self) -> str:
        """Who writes the tables that all read: the reference, or the first that can."""
        found = [name for name in WRITERS if name in self.engines]
        if not found:
            raise SystemExit(f"Someone must write the tables: name one of {', '.join(WRITERS)} among the engines, too")
        return found[0]

    def _course(self, sides: Mapping[str, Side]) -> Course:
        python = python_of("data", DATA, self.folder, self.pythons)
        wanted = [name for name in ("tpch", "tpcds") if name == "tpch" or name in self.groups]
        homes = {name: generated(name, self.scale, self.folder, python) for name in wanted}
        writer = sides[self.writer()]
        for home in homes.values():
            for table in sorted((home / "parquet").iterdir()):
                self._written(writer, "load", home / "delta" / table.name, source=str(table))
                if "parquet" in sides and not (home / "linked" / table.name).exists():
                    without_log(home / "delta" / table.name, home / "linked" / table.name)
        home = homes["tpch"]
        source, small, compacted = home / "parquet" / "lineitem", home / "small", home / "compacted"
        if {"optimize", "vacuum"} & set(self.groups):
            files = "files" if self.writer() != "delta-rs" else "load"
            extra = {"count": 200} if files == "files" else {}
            self._written(writer, files, small, source=str(source), **extra)
            if not (compacted / "done").exists():
                copy_of(small, compacted)
                _done(writer.ask("optimize", path=str(compacted)), writer.name)
                (compacted / "done").touch()
        changes = home / "changes"
        if not (changes / "parts" / "19.parquet").exists():
            command = [python, str(SIDES / "data_side.py"), "changes", str(source), str(changes)]
            subprocess.run([*command, *(str(step) for step in SHARES.values())], check=True)
        return Course(
            folder=self.folder,
            homes=homes,
            source=source,
            lineitem=home / "delta" / "lineitem",
            small=small,
            compacted=compacted,
            changes=changes,
        )

    def _written(self, writer: Side, do: str, path: Path, **arguments: Any) -> None:
        if not (path / "_delta_log").exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _done(writer.ask(do, path=str(path), **arguments), writer.name)

    def _asked(self, question: Question, course: Course, sides: Mapping[str, Side]) -> Iterator[Result]:
        """One question in all rounds. Who goes first changes from round to round."""
        print(question.name, file=sys.stderr, flush=True)
        results = {name: Result(question.name, question.group, name) for name in self.engines}
        agreed: list[answers.Rows] = []
        for number in range(self.rounds + 1):
            order = list(self.engines)[number % len(self.engines) :] + list(self.engines)[: number % len(self.engines)]
            for name in order if number else self.engines:
                if not results[name].error:
                    self._turn(question, course, sides[name], results[name], agreed, counts=number > 0)
        return iter(results.values())

    def _turn(
        self,
        question: Question,
        course: Course,
        side: Side,
        result: Result,
        agreed: list[answers.Rows],
        *,
        counts: bool,
    ) -> None:
        arguments = question.prepare(side.name)
        if question.group in course.homes and side.tables_of != question.group:
            _done(side.ask("tables", paths=_tables(course.homes[question.group], side.name)), side.name)
            side.tables_of = question.group
        if question.do == "first":
            answer = self._first(side.name, arguments["path"])
        else:
            answer = side.ask(question.do, **arguments)
        if "error" in answer:
            result.error = answer["error"]
            return
        if counts:
            result.seconds.append(answer["seconds"])
        looked = side.ask("look", path=arguments["path"], sums=SUMS) if question.changes else answer
        if "error" in looked:
            result.error = f"its table cannot be read afterwards: {looked['error']}"
        elif not agreed:
            agreed.append(looked["rows"])
        elif not answers.same(agreed[0], looked["rows"]):
            result.error = "its rows are not those of the first engine"

    def _first(self, name: str, path: str) -> dict[str, Any]:
        """From nothing to a number: a process, a session, a table and its count."""
        if ENGINES[name].reads == "parquet":
            path = str(Path(path).parents[1] / "linked" / Path(path).name)
        began = time.perf_counter()
        side = self._side(name)
        answer = side.ask("tables", paths={"lineitem": path})
        if "error" not in answer:
            answer = side.ask("query", text="SELECT count(*) FROM lineitem")
        seconds = time.perf_counter() - began
        side.stop()
        return answer if "error" in answer else {**answer, "seconds": seconds}


def _tables(home: Path, engine: str) -> dict[str, str]:
    kind = "linked" if ENGINES[engine].reads == "parquet" else "delta"
    return {table.name: str(home / kind / table.name) for table in sorted((home / "parquet").iterdir())}


def _done(answer: dict[str, Any], name: str) -> None:
    if "error" in answer:
        raise SystemExit(f"{name} cannot prepare the race: {answer['error']}")
