"""How fast are DELETE, UPDATE and MERGE compared with the reference implementation, and with copy-on-write?

Each side has a Spark session of the same version in its own process, makes the same calls of `DeltaTable`, and has a
copy of the table for each round, whose data files are hard links. The resulting tables are compared, untimed.

    SCALE_FACTOR=10   of the large table (60 million rows in 100 files); use 1 for a quick run
    SMALL_SCALE=1     of the smaller tables
    ROUNDS=3          after a warm-up round
    ONLY="merge read" the questions to ask, by their names in QUESTIONS
    SIDES="reference reference"  who plays "tahoe" and the peer, to test this script
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import tahoe
from benchmarks.beside_reference import PEER, Side
from benchmarks.measure import CACHE, FOLDER, SCALE_FACTOR, Comparison, cells, report

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SMALL_SCALE = os.environ.get("SMALL_SCALE", "1")
SIDES = os.environ.get("SIDES", "tahoe reference").split()
DRIVER_MEMORY = "8g"
DML = FOLDER / "dml"
SCRATCH = DML / f"rounds-{os.getpid()}"
VECTORS = {"delta.enableDeletionVectors": "true"}
FILES_PER_SCALE = 10  # at scale factor 10 there are 100 files, of 20 to 30 MB each
FILES_MIN = 4
COPYING = "copy-on-write"
GRID_SHARES = {
    "1 row": "l_orderkey = 1 AND l_linenumber = 1",
    "0.1 %": "{h} < 1",
    "1 %": "{h} < 10",
    "10 %": "{h} < 100",
    "50 %": "{h} < 500",
}
GRID_FILES_MB = (1, 20, 100)

# The rows of lineitem in a thousand parts, scattered.
THOUSANDTH = "pmod(hash(l_orderkey, l_linenumber), 1000)"
READ = "spark.read.format('delta').load(path)"
SUMS = f"{READ}.selectExpr('sum(l_quantity)', 'sum(l_extendedprice)', 'sum(l_discount)').collect()"
EVERY = f"{READ}.selectExpr(*['max(' + c + ')' for c in {READ}.columns]).collect()"
CONTENTS = f"{READ}.selectExpr('count(*)', 'sum(cast(xxhash64(*) as decimal(38, 0)))').collect()"
OPEN = f"{READ}.where('l_orderkey = -1').collect()"

DELETE = "DeltaTable.forPath(spark, path).delete(condition)"
UPDATE = (
    "DeltaTable.forPath(spark, path).update(condition, {'l_quantity': 'l_quantity + 1', 'l_comment': '\"changed\"'})"
)
_MERGE = "DeltaTable.forPath(spark, path).alias('t').merge(spark.read.parquet(source).alias('s'), condition)"
UPSERT = f"{_MERGE}.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()"
INSERT = f"{_MERGE}.whenNotMatchedInsertAll().execute()"
BY_KEYS = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"

# --- tables and sources, made once


@dataclass(frozen=True)
class Base:
    """The table that every round starts from.

    Attributes:
        plain: without deletion vectors.
        marked: the same files in a table with deletion vectors enabled.
    """

    plain: Path
    marked: Path


def lineitem_base(scale: str) -> Base:
    """lineitem in files of 20 to 30 MB; each file is a range of keys."""
    files = max(FILES_MIN, round(FILES_PER_SCALE * float(scale)))
    return _base(f"sf{scale}", lambda path: _write(path, [lineitem_parts(scale, files)], file_each=True))


def lineitem_parts(scale: str, files: int) -> Path:
    """lineitem in a given number of Parquet files, written without Spark."""
    folder = CACHE / "tpch" / f"sf{scale}-{files}"
    done = folder / "lineitem.done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generator = Path(sys.executable).with_name("tpchgen-cli")
        arguments = [
            "parquet",
            "--scale-factor",
            scale,
            "--tables",
            "lineitem",
            "--parts",
            str(files),
            "--output-dir",
            str(folder),
        ]
        subprocess.run([str(generator), *arguments, "--overwrite", "--quiet"], check=True)
        done.touch()
    return folder / "lineitem"


def string_keys_base(scale: str) -> Base:
    """The same with a text key, so that files are not ranges of keys."""
    whole = lineitem_base(scale).plain
    return _base(
        f"sf{scale}-strings", lambda path: _write(path, [whole], ["*", f"{TEXT_KEY} AS l_key"], file_each=True)
    )


TEXT_KEY = "concat(sha1(cast(l_orderkey as string)), '-', l_linenumber)"


def files_of(size_mb: int) -> Base:
    """The small lineitem in files of about one size."""
    whole = lineitem_base(SMALL_SCALE).plain
    size = sum(tahoe.Table(str(whole)).files()["size_bytes"].to_pylist()) / 1e6
    count = max(1, round(size / size_mb))
    return _base(f"sf{SMALL_SCALE}-{size_mb}mb", lambda path: _write(path, [whole], ["*"], ranges=count))


def _base(name: str, write: Callable[[Path], None]) -> Base:
    base = Base(DML / name / "plain", DML / name / "vectors")
    done = DML / name / "done"
    if not done.exists():
        shutil.rmtree(DML / name, ignore_errors=True)
        write(base.plain)
        copy_table(base.plain, base.marked)
        with tahoe.Table(str(base.marked)).transaction() as changes:
            changes.set_properties(VECTORS)
        done.touch()
    return base


def _write(
    path: Path, source: Sequence[Path], columns: Sequence[str] = ("*",), *, file_each: bool = False, ranges: int = 0
) -> None:
    """Write a table with Spark: one file per source file, or files by ranges of keys."""
    side = Side(SIDES[0], DRIVER_MEMORY)
    read = "delta" if (source[0] / "_delta_log").exists() else "parquet"
    if file_each:  # files are not read together, and none is read in parts
        for name in ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"):
            side.ask("spark.conf.set(name, '4g')", name=name)
    frame = f"spark.read.format(read).load(source).selectExpr(*{list(columns)!r})"
    if ranges:
        frame += f".repartitionByRange({ranges}, 'l_orderkey')"
    side.ask(f"{frame}.write.format('delta').save(path)", read=read, source=str(source[0]), path=str(path))
    side.stop()


def source_of(name: str, base: Base, rows: str, *changed: tuple[str, str]) -> str:
    """A source of MERGE, written once: the rows that match a condition, once per list of changed columns.

    Args:
        changed: pairs of a condition and of expressions that replace columns: `column = expression; ...`.
    """
    path = DML / "sources" / f"{base.plain.parent.name}-{name}"
    if not (path / "_SUCCESS").exists():
        side = Side(SIDES[0], DRIVER_MEMORY)
        frame = f"{READ}.where(rows)"
        parts = [f"{frame}.where({where!r}).withColumns({_columns(text)})" for where, text in changed]
        code = parts[0] + "".join(f".unionAll({part})" for part in parts[1:])
        names = {"path": str(base.plain), "rows": rows, "to": str(path)}
        side.ask(f"({code}).write.mode('overwrite').parquet(to)", **names)
        side.stop()
    return str(path)


def _columns(text: str) -> str:
    pairs = [pair.split("=", 1) for pair in text.split(";")]
    return "{" + ", ".join(f"{name.strip()!r}: F.expr({sql.strip()!r})" for name, sql in pairs) + "}"


CHANGED = ("true", "l_quantity = l_quantity + 1; l_comment = 'merged'")


# --- rounds

_numbers = itertools.count()


def copy_table(table: Path, to: Path) -> None:
    """Copy a table. Data files are hard links; the log is copied, because some of its files are overwritten in
    place.
    """
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(table, to, copy_function=os.link, ignore=shutil.ignore_patterns("_delta_log"))
    shutil.copytree(table / "_delta_log", to / "_delta_log")


def new_bytes(table: Path, base: Path) -> int:
    """How much a command has written: data, deletion vectors, the log, and any other file."""
    known = {path.relative_to(base) for path in base.rglob("*")}
    return sum(
        path.stat().st_size for path in table.rglob("*") if path.is_file() and path.relative_to(table) not in known
    )


@dataclass
class Asked:
    """A side that is asked a question.

    Attributes:
        base: the table that each round starts from.
        seconds, kilobytes: the time and the written data of each round, without the warm-up.
    """

    side: Side
    base: Path
    name: str
    seconds: list[float] = field(default_factory=list)
    kilobytes: list[float] = field(default_factory=list)

    def round(self, code: str, names: Mapping[str, str], *, counts: bool, checks: bool) -> list[list[str]] | None:
        """Run one round. Returns the content of the table afterwards, if it is asked for."""
        # A path of its own each time: sessions remember the tables that they have opened.
        table = SCRATCH / f"{self.name}-{next(_numbers)}"
        copy_table(self.base, table)
        self.side.ask(OPEN, path=str(table))
        seconds = self.side.ask(code, path=str(table), **names)
        contents = None
        if checks:
            self.side.ask(CONTENTS, path=str(table))
            contents = self.side.rows
        if counts:
            self.seconds.append(seconds)
            self.kilobytes.append(new_bytes(table, self.base) / 1e3)
        shutil.rmtree(table)
        return contents


def contest(asked: Sequence[Asked], code: str, *, warm_up: int = 1, **names: str) -> None:
    """Run the rounds of one question, in turns. The first round is a warm-up, in which all sides must leave the same
    table.
    """
    unique = [Asked(a.side, a.base, f"{a.name}-{i}", a.seconds, a.kilobytes) for i, a in enumerate(asked)]
    for number in range(ROUNDS + warm_up):
        turn = unique if number % 2 else unique[::-1]
        left = [one.round(code, names, counts=number >= warm_up, checks=number == 0) for one in turn]
        if number == 0:
            assert all(contents == left[0] for contents in left), f"all must leave the same rows: {left}"


def beside_reference(
    sides: Sequence[Side], base: Path, question: str, code: str, goal: float | None, **names: str
) -> Comparison:
    asked = [Asked(side, base, side.name) for side in sides]
    contest(asked, code, **names)
    return Comparison(question=question, peer=PEER, ours=asked[0].seconds, theirs=asked[1].seconds, goal=goal)


@contextmanager
def processes(names: Sequence[str] = SIDES) -> Iterator[list[Side]]:
    sides = [Side(name, DRIVER_MEMORY) for name in names]
    try:
        yield sides
    finally:
        for side in sides:
            side.stop()


# --- questions


def delete_by_keys() -> list[Comparison]:
    """DELETE of one row in each file, by key, and of the same rows with many disjuncts."""
    base = lineitem_base(SCALE_FACTOR)
    keys = _a_key_of_each_file(base)
    condition = f"l_linenumber = 1 AND l_orderkey IN ({', '.join(map(str, keys))})"
    question = f"DELETE of 1 row in each of {len(keys)} files, by keys"
    with processes() as sides:
        marked, copied, theirs = (
            Asked(sides[0], base.marked, "vectors"),
            Asked(sides[0], base.plain, "copies"),
            Asked(sides[1], base.marked, "theirs"),
        )
        contest([marked, theirs, copied], DELETE, condition=condition)
        disjuncts = " OR ".join(f"(l_orderkey = {key} AND l_linenumber = 1)" for key in keys)
        many, scan = Asked(sides[0], base.marked, "disjuncts"), f"{READ}.where(condition).collect()"
        contest([many], DELETE, condition=disjuncts)
        scans = [sides[0].ask(scan, path=str(base.plain), condition=disjuncts) for _ in range(ROUNDS + 1)][1:]
    return [
        Comparison(question=question, peer=PEER, ours=marked.seconds, theirs=theirs.seconds, goal=0.2),
        Comparison(question=question, peer=COPYING, ours=marked.seconds, theirs=copied.seconds, goal=0.1),
        Comparison(
            question="what that DELETE writes",
            peer=COPYING,
            ours=marked.kilobytes,
            theirs=copied.kilobytes,
            unit="kB",
            goal=0.001,
        ),
        Comparison(
            question="what that DELETE writes", peer=PEER, ours=marked.kilobytes, theirs=theirs.kilobytes, unit="kB"
        ),
        Comparison(
            question=f"the same rows as {len(keys)} disjuncts",
            peer="a scan with the filter",
            ours=many.seconds,
            theirs=scans,
            goal=1.5,
        ),
    ]


def _a_key_of_each_file(base: Base) -> list[int]:
    bounds = tahoe.Table(str(base.plain)).files(columns=["stats"]).to_pylist()
    return sorted({_least_key(file["stats"]) for file in bounds})


def _least_key(stats: str) -> int:
    return int(json.loads(stats)["minValues"]["l_orderkey"])


def update() -> list[Comparison]:
    base = lineitem_base(SCALE_FACTOR)
    with processes() as sides:
        return [
            beside_reference(
                sides, base.marked, "UPDATE of 1 % of the rows, scattered", UPDATE, 0.5, condition=f"{THOUSANDTH} < 10"
            )
        ]


def _upsert_source(base: Base) -> str:
    """A source with 1 % of the rows. 90 % of them match; the others use gaps in the order keys."""
    new = "l_orderkey = l_orderkey + 8"
    return source_of(
        "upsert", base, f"{THOUSANDTH} < 10", (f"{THOUSANDTH} < 9", CHANGED[1]), (f"{THOUSANDTH} = 9", new)
    )


def merge() -> list[Comparison]:
    """MERGE: upsert of 1 % of the rows."""
    base = lineitem_base(SCALE_FACTOR)
    names = {"source": _upsert_source(base), "condition": BY_KEYS}
    with processes() as sides:
        found = [
            beside_reference(
                sides, base.marked, f"MERGE, upsert of 1 %, scale factor {SCALE_FACTOR}", UPSERT, 0.4, **names
            )
        ]
    peaks = [_peak_of(name, base.marked, UPSERT, names) for name in SIDES]
    what = (
        "Peak memory is that of the JVM, of Python and of its workers, in processes that do nothing but two such MERGEs"
    )
    found.append(
        Comparison(
            question="peak memory of that", peer=PEER, ours=peaks[0], theirs=peaks[1], unit="MB", goal=1.0, what=what
        )
    )
    return found


def _peak_of(name: str, base: Path, code: str, names: Mapping[str, str]) -> list[float]:
    with processes([name]) as (side,):
        one = Asked(side, base, "memory")
        for _ in range(2):
            one.round(code, names, counts=False, checks=False)
        side.ask("[[peak_megabytes_of_all()]]")
        return [float(side.rows[0][0])]


def merge_small() -> list[Comparison]:
    base = lineitem_base(SMALL_SCALE)
    names = {"source": _upsert_source(base), "condition": BY_KEYS}
    question = f"MERGE, upsert of 1 %, scale factor {SMALL_SCALE}"
    with processes() as sides:
        return [
            beside_reference(sides, base.marked, question, UPSERT, 0.5, **names),
            beside_reference(sides, base.plain, f"{question}, without vectors", UPSERT, 0.8, **names),
        ]


def merge_inserts() -> list[Comparison]:
    """Insert-only MERGE of 0.1 % of the keys; half of them match."""
    base = lineitem_base(SCALE_FACTOR)
    there, new = (
        (f"{THOUSANDTH} = 0 AND l_orderkey % 2 = 0", CHANGED[1]),
        (f"{THOUSANDTH} = 0 AND l_orderkey % 2 = 1", "l_orderkey = l_orderkey + 8"),
    )
    source = source_of("inserts", base, f"{THOUSANDTH} = 0", there, new)
    with processes() as sides:
        return [
            beside_reference(
                sides,
                base.marked,
                "MERGE, inserts only, 0.1 % of the keys",
                INSERT,
                0.5,
                source=source,
                condition=BY_KEYS,
            )
        ]


def merge_files() -> list[Comparison]:
    """MERGE into a twentieth of the files, with a growing share of their rows in the source."""
    base = lineitem_base(SCALE_FACTOR)
    keys = _a_key_of_each_file(base)
    end = keys[max(1, len(keys) // 20)]
    found = []
    with processes() as sides:
        for share in (1, 10, 50, 100):
            source = source_of(f"files-{share}", base, f"l_orderkey < {end} AND {THOUSANDTH} < {10 * share}", CHANGED)
            question = f"MERGE into 5 % of the files, {share} % of their rows"
            found.append(beside_reference(sides, base.marked, question, UPSERT, 0.8, source=source, condition=BY_KEYS))
    return found


def merge_strings() -> list[Comparison]:
    """MERGE with text keys, and a source that is half of the target."""
    base = string_keys_base(SMALL_SCALE)
    changed = (f"{THOUSANDTH} < 9", CHANGED[1]), (f"{THOUSANDTH} = 9", "l_key = concat('new ', l_key)")
    source = source_of("upsert", base, f"{THOUSANDTH} < 10", *changed)
    numbers = lineitem_base(SMALL_SCALE)
    half = source_of("half", numbers, f"{THOUSANDTH} < 500", CHANGED)
    with processes() as sides:
        by_text, halved = (
            f"MERGE, {what}, scale factor {SMALL_SCALE}" for what in ("keys are text, 1 %", "source is half the target")
        )
        return [
            beside_reference(sides, base.marked, by_text, UPSERT, 0.8, source=source, condition="t.l_key = s.l_key"),
            beside_reference(sides, numbers.marked, halved, UPSERT, 0.8, source=half, condition=BY_KEYS),
        ]


def read() -> list[Comparison]:
    """Reads of a table after deletes, compared with the same table without."""
    base = lineitem_base(SCALE_FACTOR)
    found = []
    with processes(SIDES[:1]) as (side,):
        for share, thousandths in (("0.1 %", 1), ("1 %", 10), ("10 %", 100)):
            table = SCRATCH / f"read-{next(_numbers)}"
            copy_table(base.marked, table)
            side.ask(DELETE, path=str(table), condition=f"{THOUSANDTH} < {thousandths}")
            for what, code in (("sum of 3 columns", SUMS), ("max of all columns", EVERY)):
                times: tuple[list[float], list[float]] = ([], [])
                for number in range(ROUNDS + 1):
                    for position, path in list(enumerate((table, base.plain)))[:: 1 if number % 2 else -1]:
                        seconds = side.ask(code, path=str(path))
                        if number:
                            times[position].append(seconds)
                question = f"{what} after a DELETE of {share}"
                found.append(
                    Comparison(
                        question=question, peer="a table without vectors", ours=times[0], theirs=times[1], goal=1.3
                    )
                )
            shutil.rmtree(table)
    return found


def grid() -> list[Comparison]:
    """Deletion vectors compared with rewriting files, by share of changed rows and by file size."""
    found = []
    with processes(SIDES[:1]) as (side,):
        for size_mb in GRID_FILES_MB:
            base = files_of(size_mb)
            for share, template in GRID_SHARES.items():
                condition = template.format(h=THOUSANDTH)
                for name, code in (("DELETE", DELETE), ("UPDATE", UPDATE)):
                    marked, copied = Asked(side, base.marked, "vectors"), Asked(side, base.plain, "copies")
                    contest([marked, copied], code, condition=condition)
                    question = f"{name} of {share}, files of {size_mb} MB: vectors"
                    found.append(
                        Comparison(
                            question=question, peer=COPYING, ours=marked.seconds, theirs=copied.seconds, goal=1.0
                        )
                    )
    return found


QUESTIONS: Mapping[str, Callable[[], list[Comparison]]] = {
    "delete": delete_by_keys,
    "update": update,
    "merge": merge,
    "small": merge_small,
    "inserts": merge_inserts,
    "files": merge_files,
    "strings": merge_strings,
    "read": read,
    "grid": grid,
}


def run() -> list[Comparison]:
    """Run the chosen questions. Each result is printed at once, because rounds are long."""
    found = []
    try:
        for name in os.environ.get("ONLY", " ".join(QUESTIONS)).split():
            for comparison in QUESTIONS[name]():
                print(" | ".join(cells(comparison)), flush=True)
                found.append(comparison)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
    return found


if __name__ == "__main__":
    print(f"lineitem at scale factor {SCALE_FACTOR}, {ROUNDS} rounds", flush=True)
    report(*run())
