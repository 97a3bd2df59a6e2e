"""Lives of small tables: each statement is run by an engine and by the model, and what is there afterwards must be the
same.

A case is one statement with everything that is looked at after it: rows, change feed, row ids, files, counts. A table
lives through several, so that vectors lie on vectors and rows that moved are moved again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import tahoe
from tahoe.protocol.log.actions import Add
from tahoe.table.verify.check import Severity, check_version
from tests.dml.calls import Call, arrow, as_code, call_of, write_source
from tests.dml.generator import Generator, Shape
from tests.dml.model import Merge, Outcome, Refusal, Row, Schema, Source, Statement, Update, Verb, counted, frozen, run

STATEMENTS = 8  # of one life

# What a table can be, by the name under which failures tell it.
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
ROW_TRACKING = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


@dataclass(frozen=True)
class Mode:
    properties: Mapping[str, str]
    partitioned: bool = False

    def has(self, properties: Mapping[str, str]) -> bool:
        return properties.items() <= self.properties.items()


MODES = {
    "vectors": Mode(VECTORS),
    "copies": Mode({}),
    "vectors, partitioned": Mode(VECTORS, partitioned=True),
    "copies, partitioned": Mode({}, partitioned=True),
    "vectors, feed": Mode(VECTORS | FEED),
    "copies, feed": Mode(FEED, partitioned=True),
    "vectors, row tracking": Mode(VECTORS | ROW_TRACKING),
    "copies, row tracking": Mode(ROW_TRACKING),
    "vectors, mapped, partitioned": Mode(VECTORS | MAPPED, partitioned=True),
    "everything": Mode(VECTORS | FEED | ROW_TRACKING | MAPPED, partitioned=True),
}


class StatementRefused(Exception):
    """An engine would not run a statement. `condition` is its error's name, with whatever the error says."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self.condition = condition


class EngineFault(Exception):
    """An engine failed by a fault of its own that is known; nothing was changed, and the life goes on without the
    statement.
    """


@dataclass(frozen=True)
class Answer:
    """What a call answered: MERGE has one row, the others have none."""

    rows: Sequence[Mapping[str, Any]] = ()


class Engine(Protocol):
    """Runs statements on tables that are there.

    Attributes:
        refuses_idle_matches: it refuses a MERGE in which several source rows match a target row and at most one of them
            changes it.
    """

    refuses_idle_matches: bool

    def run(self, path: str, call: Call, statement: Statement) -> Answer:
        """Run one statement.

        Raises:
            StatementRefused, EngineFault: it was not run, and nothing was changed.
        """
        ...

    def changes(self, path: str, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        """The change feed of these versions: the columns, and `_change_type`, `_commit_version`."""
        ...


class Failure(Exception):
    """An engine and the model disagree."""

    def __init__(self, mode: str, seed: int, number: int, text: str) -> None:
        super().__init__(f"mode {mode!r}, seed {seed}, statement {number}\n{text}")


@dataclass
class Life:
    """One table under an engine and in the model.

    Attributes:
        versions: the rows at each version.
        told: what was done, for whoever must understand a failure.
        faults: how many statements the engine could not run.
    """

    engine: Engine
    folder: Path
    mode: str
    seed: int
    told: list[str] = field(default_factory=list)
    faults: int = 0

    def __post_init__(self) -> None:
        self.kind = MODES[self.mode]
        self.generator = Generator(f"{self.mode} {self.seed}")
        self.path = str(self.folder / "table")
        shape = self.generator.shape(partitioned=self.kind.partitioned)
        self.schema: Schema = shape.schema
        self.table = make_table(self.path, shape, self.kind.properties)
        rows = [Row(values) for rows in shape.files for values in rows]
        self.versions: dict[int, Sequence[Row]] = {
            self.table.version: self._tracked(len(rows)) if self._tracks else rows
        }
        self.seen = {row.row_id for row in self.rows}

    @property
    def rows(self) -> Sequence[Row]:
        return self.versions[max(self.versions)]

    @property
    def _tracks(self) -> bool:
        return self.kind.has(ROW_TRACKING)

    def live(self, statements: int = STATEMENTS) -> int:
        """Run statements. Returns how many.

        Raises:
            Failure
        """
        for number in range(statements):
            statement = self.generator.statement(self.schema, self.versions)
            try:
                self._case(statement, number)
            except _Difference as difference:
                raise Failure(self.mode, self.seed, number, self._reproduction(str(difference))) from None
        wrong = [finding for finding in check_version(self.table.snapshot()) if finding.severity is Severity.ERROR]
        if wrong:
            raise Failure(self.mode, self.seed, statements, self._reproduction(f"the table is broken: {wrong[0]}"))
        return statements

    # --- one case

    def _case(self, statement: Statement, number: int) -> None:
        before = self.table.snapshot()
        call = self._call(statement, number)
        wanted = run(statement, self.rows, self.schema)
        self._tell(statement, call)
        try:
            answer = self.engine.run(self.path, call, statement)
        except StatementRefused as refused:
            self._check_refused(wanted, refused, before.version)
            return
        except EngineFault:
            self.faults += 1
            return
        if wanted.refusal is not None:
            raise _Difference(f"it was run, and had to be refused as {wanted.refusal.name.lower()}")
        self._check_rows(wanted)
        if isinstance(statement, Merge):
            _check_answer(wanted, answer)
        self._check_metrics(wanted, statement, before.version)
        self._check_files(wanted, before)
        if self.kind.has(FEED):
            self._check_changes(wanted, before.version)
        version = self.table.version
        self.versions[version] = (
            self._check_row_ids(wanted, version) if self._tracks else [Row(values) for values in wanted.rows()]
        )
        self.schema = wanted.schema

    def _call(self, statement: Statement, number: int) -> Call:
        if not isinstance(statement, Merge) or statement.source.kind == "target":
            return call_of(statement)
        path = self.folder / f"source-{number}.parquet"
        write_source(statement.source, path)
        return call_of(statement, path)

    def _check_refused(self, wanted: Outcome, refused: StatementRefused, version: int) -> None:
        expected = wanted.refusal or (
            Refusal.AMBIGUOUS if wanted.may_refuse and self.engine.refuses_idle_matches else None
        )
        if expected is None or not any(part in refused.condition for part in expected.value):
            why = "nothing was wrong with it" if expected is None else f"{' or '.join(expected.value)} was expected"
            raise _Difference(f"it was refused, and {why}: {refused.condition}")
        if self.table.version != version:
            raise _Difference(f"it failed, and left version {self.table.version}")

    def _check_rows(self, wanted: Outcome) -> None:
        have = self.table.to_arrow()
        names = [column.name for column in wanted.schema]
        if have.column_names != names:
            raise _Difference(f"the columns are {have.column_names}, expected {names}")
        expected = arrow([], wanted.schema).schema
        for column in expected:
            if have.schema.field(column.name).type != column.type:
                raise _Difference(
                    f"column {column.name} is {have.schema.field(column.name).type}, expected {column.type}"
                )
        _check_same("rows", counted(have.to_pylist(), wanted.schema), counted(wanted.rows(), wanted.schema))

    def _check_metrics(self, wanted: Outcome, statement: Statement, version: int) -> None:
        """What the history tells of rows, by the reference's names; what is not told is not wrong."""
        if self.table.version == version:
            return
        told = self.table.history(1)[0].get("operationMetrics", {})
        for name, count in _metrics(wanted, statement).items():
            if name in told and int(told[name]) != count:
                raise _Difference(f"the history says {name} = {told[name]}, expected {count}")

    def _check_files(self, wanted: Outcome, before: tahoe.Snapshot) -> None:
        """With vectors, nothing is written again that has not changed; without, there are no vectors."""
        adds, known = self.table.snapshot().live.adds(), {add.path for add in before.live.adds()}
        if not self.kind.has(VECTORS):
            if any(add.deletion_vector is not None for add in adds):
                raise _Difference("a table without deletion vectors has one")
            return
        written = sum(_physical_rows(add) for add in adds if add.path not in known)
        changed = wanted.count(Verb.UPDATED) + wanted.count(Verb.INSERTED)
        if written > changed:
            raise _Difference(f"{written} rows were written, and {changed} are new or have changed")

    def _check_changes(self, wanted: Outcome, version: int) -> None:
        """The change feed of the versions that the statement made."""
        newest = self.table.version
        if newest == version:
            return
        names = [column.name for column in wanted.schema]
        rows = self.engine.changes(self.path, version + 1, newest, names).to_pylist()
        have = Counter(
            (row["_change_type"], row["_commit_version"], *(frozen(row[name]) for name in names)) for row in rows
        )
        want = Counter(
            (kind, newest, *(frozen(values.get(name)) for name in names)) for kind, values in wanted.changes()
        )
        _check_same("changes", have, want)

    def _check_row_ids(self, wanted: Outcome, version: int) -> Sequence[Row]:
        """Rows that stay keep their id, and unless they were changed the version that last changed them; new rows have
        new ids.
        """
        found = self._tracked(len(wanted.rows()))
        have = Counter((frozen(row.values), row.row_id, row.version) for row in found if row.row_id in self.seen)
        want = Counter(
            (
                frozen(effect.after),
                effect.before.row_id,
                version if effect.verb is Verb.UPDATED else effect.before.version,
            )
            for effect in wanted.effects
            if effect.before is not None and effect.after is not None
        )
        _check_same("rows with their ids and versions", have, want)
        new = [row for row in found if row.row_id not in self.seen]
        if any(row.row_id is None or row.version != version for row in new) or len({row.row_id for row in new}) < len(
            new
        ):
            raise _Difference(f"new rows need ids of their own, and version {version}: {new}")
        self.seen |= {row.row_id for row in new}
        return found

    def _tracked(self, count: int) -> list[Row]:
        """The rows that are there, with what row tracking says of them."""
        names = list(self.table.schema.names)
        asked = [*names, "_metadata.row_id", "_metadata.row_commit_version"]
        found = self.table.to_arrow(columns=asked).to_pylist()
        assert len(found) == count
        return [Row({name: row[name] for name in names}, row[asked[-2]], row[asked[-1]]) for row in found]

    # --- telling

    def _tell(self, statement: Statement, call: Call) -> None:
        lines = [f"rows before ({', '.join(f'{column.name} {column.kind}' for column in self.schema)}):"]
        lines += [f"    {_row_text(row.values)}" for row in self.rows]
        if isinstance(statement, Merge):
            lines += _source_text(statement.source)
        self.told += ["\n".join([*lines, as_code(call)])]

    def _reproduction(self, difference: str) -> str:
        properties = json.dumps(dict(self.kind.properties))
        last = self.told[-1] if self.told else ""
        return (
            f"{difference}\n\nproperties {properties}, partitioned: {self.kind.partitioned}, table {self.path}\n{last}"
        )


class _Difference(Exception):
    """What is not as the model has it."""


def make_table(path: str, shape: Shape, properties: Mapping[str, str]) -> tahoe.Table:
    """A table with the files of a shape, written without Spark in two commits: the properties, then the rows."""
    table = tahoe.Table(path)
    table.append(arrow([], shape.schema), partition_by=shape.partition_by or None, properties=properties)
    with table.transaction() as changes:
        for rows in shape.files:
            changes.append(arrow(list(rows), shape.schema))
    return table


def lives(engine: Engine, folder: Path, mode: str, seeds: Sequence[int], statements: int = STATEMENTS) -> Iterator[int]:
    """Live one life a seed; yields how many statements each had."""
    for seed in seeds:
        yield Life(engine, folder / f"{mode} {seed}".replace(", ", "-").replace(" ", "-"), mode, seed).live(statements)


# --- checks


def _check_same(what: str, have: Counter[Any], want: Counter[Any]) -> None:
    missing, extra = list((want - have).elements()), list((have - want).elements())
    if missing or extra:
        shown = [f"    missing: {row}" for row in missing[:5]] + [f"    too many: {row}" for row in extra[:5]]
        raise _Difference(
            "\n".join([f"{what}: {len(missing)} missing, {len(extra)} too many of {want.total()}", *shown])
        )


def _check_answer(wanted: Outcome, answer: Answer) -> None:
    counts = {
        "num_updated_rows": wanted.count(Verb.UPDATED),
        "num_deleted_rows": wanted.count(Verb.DELETED),
        "num_inserted_rows": wanted.count(Verb.INSERTED),
    }
    expected = [{"num_affected_rows": sum(counts.values()), **counts}]
    if list(answer.rows) != expected:
        raise _Difference(f"MERGE answers {answer.rows}, expected {expected}")


def _metrics(wanted: Outcome, statement: Statement) -> dict[str, int]:
    updated, deleted = wanted.count(Verb.UPDATED), wanted.count(Verb.DELETED)
    match statement:
        case Merge():
            return {
                "numTargetRowsUpdated": updated,
                "numTargetRowsMatchedUpdated": wanted.count(Verb.UPDATED, "matched"),
                "numTargetRowsNotMatchedBySourceUpdated": wanted.count(Verb.UPDATED, "not matched by source"),
                "numTargetRowsDeleted": deleted,
                "numTargetRowsMatchedDeleted": wanted.count(Verb.DELETED, "matched"),
                "numTargetRowsNotMatchedBySourceDeleted": wanted.count(Verb.DELETED, "not matched by source"),
                "numTargetRowsInserted": wanted.count(Verb.INSERTED),
            }
        case Update():
            return {"numUpdatedRows": updated}
        case _:
            return {"numDeletedRows": deleted}


def _physical_rows(add: Add) -> int:
    return int(json.loads(add.stats or "{}")["numRecords"])


def _row_text(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in values.items())


def _source_text(source: Source) -> list[str]:
    if source.kind == "target":
        return [f"the source is the target at version {source.version}"]
    return [
        f"source ({', '.join(f'{column.name} {column.kind}' for column in source.schema)}):",
        *(f"    {_row_text(r)}" for r in source.rows),
    ]
