"""Transactions over two tables of a catalog: in every order of the calls to storage and database, all of a transaction
is visible or nothing of it, what was acknowledged stays, and readers of one moment see no half.

Each transaction of the database is one step. Programs commit as tables do, without reading the log for it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

import pytest
import sqlalchemy as sa

from tahoe.catalog import ratification
from tahoe.catalog.commits import CatalogCommits
from tahoe.catalog.entries import ListedMoment, TableEntry
from tahoe.catalog.ratification import DatabaseRatifier, TableChange
from tahoe.catalog.tables_of_database import COMMITS, METADATA, SCHEMAS, TABLES
from tahoe.catalog.transaction import CatalogTransaction
from tahoe.errors import DeltaConcurrentModificationException
from tahoe.protocol.log.log_files import LOG_FOLDER, commit_key
from tahoe.storage.delegating import DelegatingStore
from tahoe.storage.env import Env, FileInfo, Store, Watch
from tahoe.storage.managed import ManagedStore
from tahoe.storage.memory import MemoryStore
from tahoe.storage.ratified import TableCommits
from tahoe.table.log.committer import Committed, put_commit
from tahoe.testing.explorer import Acknowledge, Explored, Place, Program, Writer, explore
from tests import sample

NAMES = ("a", "b")
DATABASE = "database"
_numbers = itertools.count()
_engines: dict[str, sa.Engine] = {}

Begin = Callable[[], AbstractContextManager[sa.Connection]]


@dataclass(frozen=True)
class Folder(DelegatingStore):
    """A folder of a store, as the store of a table."""

    inner: Store
    name: str

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[FileInfo]:
        after = f"{self.name}/{start_after}" if start_after else ""
        for info in self.inner.list_from(f"{self.name}/{prefix}", after):
            yield FileInfo(info.key.removeprefix(f"{self.name}/"), info.size_bytes, info.modified_ms, info.etag)

    def get(self, key: str) -> bytes:
        return self.inner.get(f"{self.name}/{key}")

    def head(self, key: str) -> FileInfo | None:
        return self.inner.head(f"{self.name}/{key}")

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self.inner.put_if_absent(f"{self.name}/{key}", data)

    def put(self, key: str, data: bytes | BinaryIO) -> None:
        self.inner.put(f"{self.name}/{key}", data)

    def delete(self, key: str) -> None:
        self.inner.delete(f"{self.name}/{key}")


@dataclass
class Table:
    """What a transaction knows of a table: its environment, and the watch that its commits tell."""

    env: Env
    watch: Watch


def begins(store: Store) -> Begin:
    """Transactions of the database. What it says is in a file, too, which makes each of them a step."""
    engine, raw = _engines[store.url], MemoryStore(store.url)

    @contextmanager
    def begin() -> Iterator[sa.Connection]:
        store.get(DATABASE)
        with engine.begin() as connection:
            yield connection
        with engine.connect() as connection:
            told = [sorted(map(tuple, connection.execute(sa.select(of)))) for of in (TABLES, COMMITS)]
        raw.put(DATABASE, repr(told).encode())

    return begin


def setup(store: Store) -> None:
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    METADATA.create_all(engine)
    _engines[store.url] = engine
    with engine.begin() as connection:
        connection.execute(sa.insert(SCHEMAS).values(id="s", name="s"))
        for name in NAMES:
            same = {"schema_id": "s", "kind": "managed", "created_ms": 0, "latest_version": 0}
            connection.execute(sa.insert(TABLES).values(id=name, name=name, url=f"memory://{name}", **same))
            store.put(f"{name}/{commit_key(0)}", content("first", name, 0))
    store.put(DATABASE, b"")


def content(writer: str, table: str, version: int) -> bytes:
    """A commit. Those of different tables have different times, unless a transaction gives them one."""
    time_ms = 10 * version + NAMES.index(table)
    return json.dumps({"commitInfo": {"inCommitTimestamp": time_ms, "by": writer}}).encode() + b"\n"


def moment(begin: Begin) -> ListedMoment:
    with begin() as connection:
        rows = connection.execute(sa.select(TABLES.c.id, TABLES.c.latest_version)).all()
    same: dict[str, Any] = {"kind": "managed", "comment": None, "unpublished": 0}
    return ListedMoment(TableEntry(id=n, name=n, url=f"memory://{n}", latest_version=v, **same) for n, v in rows)


def opened(env: Env, entry: TableEntry, commits: TableCommits, watch: Watch) -> Any:
    store = ManagedStore(Folder(env.store, entry.name), commits, env.new_id, env.clock_ms)
    return Table(replace(env, store=store), watch)


def committed(writer: str, name: str, env: Env) -> int:
    """Commit a version, behind the newest one."""
    while True:
        version = env.store._ask().latest + 1  # type: ignore[attr-defined]
        if put_commit(env, version, content(writer, name, version)) == Committed():
            return version


def changes(
    name: str, *, reads: Sequence[str] = (), writes: Sequence[str] = NAMES, serializable: bool = False
) -> Program:
    def run(env: Env, acknowledge: Acknowledge) -> None:
        begin, read = begins(env.store), list[int]()
        ratifier, known = DatabaseRatifier(begin), moment(begin)
        block = CatalogTransaction("catalog", ratifier, known, partial(opened, env), is_serializable=serializable)
        try:
            of: Any
            for table in reads:
                of = block.table(table)
                read.append(of.env.store._ask().latest)
            for table in writes:
                of = block.table(table)
                commit = partial(committed, name, table)
                commit(of.env)
                of.watch.made(commit)
            block.commit()
        except DeltaConcurrentModificationException:
            return
        acknowledge(max(read, default=0), name)

    return run


def writer(name: str, table: str) -> Program:
    """Commits to one table."""

    def run(env: Env, acknowledge: Acknowledge) -> None:
        commits = CatalogCommits(begins(env.store), table, table)
        committed(
            name, table, replace(env, store=ManagedStore(Folder(env.store, table), commits, env.new_id, env.clock_ms))
        )
        acknowledge(0, name)

    return run


def publisher(env: Env, _: Acknowledge) -> None:
    for table in NAMES:
        ManagedStore(
            Folder(env.store, table), CatalogCommits(begins(env.store), table, table), env.new_id, env.clock_ms
        ).publish()


def writers_of(store: Store) -> list[str]:
    """Who made the commits that a store shows."""
    return [json.loads(store.get(info.key))["commitInfo"]["by"] for info in store.list_from(LOG_FOLDER)]


def check_whole(found: Sequence[Sequence[str]]) -> None:
    """Names of transactions begin with t."""
    halves = [{name for name in names if name.startswith("t")} for names in found]
    assert halves[0] == halves[1], f"half of a transaction: {found}"


def reader(env: Env, _: Acknowledge) -> None:
    """Reads both tables as of one moment."""
    begin = begins(env.store)
    block = CatalogTransaction("catalog", DatabaseRatifier(begin), moment(begin), partial(opened, env))
    check_whole([writers_of(block.table(name).env.store) for name in NAMES])


def consistent(store: Store, writers: Sequence[Writer]) -> str | None:
    broken = next((writer.failure for writer in writers if writer.failure is not None), None)
    if broken is not None:
        return f"a writer failed: {broken!r}"
    begin = begins(store)
    views = [ManagedStore(Folder(store, name), CatalogCommits(begin, name, name)) for name in NAMES]
    found = [writers_of(view) for view in views]
    told = [name for writer in writers for _, name in writer.acknowledged]
    if any(len(names) != len(set(names)) for names in found):
        return f"committed twice: {found}"
    if any(name not in found[0] and name not in found[1] for name in told):
        return f"acknowledged and not there: {told}, {found}"
    return None


def whole(store: Store, writers: Sequence[Writer]) -> str | None:
    """Also that transactions are in both tables."""
    wrong = consistent(store, writers)
    begin = begins(store)
    views = [ManagedStore(Folder(store, name), CatalogCommits(begin, name, name)) for name in NAMES]
    try:
        check_whole([writers_of(view) for view in views])
    except AssertionError as error:
        return str(error)
    newest = [list(view.list_from(LOG_FOLDER))[-1].key for view in views]
    last = [json.loads(view.get(key))["commitInfo"] for view, key in zip(views, newest, strict=True)]
    if last[0]["by"] == last[1]["by"] != "first" and last[0]["inCommitTimestamp"] != last[1]["inCommitTimestamp"]:
        return f"the commits of a transaction have two times: {last}"
    return wrong


def skewed(store: Store, writers: Sequence[Writer]) -> str | None:
    """Whether each of two transactions has read what the other one had not written yet."""
    told = [name for writer in writers for read, name in writer.acknowledged if read == 0]
    return f"write skew: {told}" if len(told) > 1 else consistent(store, writers)


def run(programs: Sequence[Program], check: Any, *, deaths: int = 0) -> Explored:
    new_store = partial(MemoryStore, clock_ms=lambda: 1_700_000_000_000)
    place = Place(new_store=lambda: new_store(f"memory://transactions-{next(_numbers)}"))
    return explore(setup, programs, check, deaths=deaths, place=place)


PAIR = (changes("t1"), changes("t2"))
SKEW = tuple(
    changes(f"t{number}", reads=[NAMES[number]], writes=[NAMES[1 - number]], serializable=True) for number in range(2)
)
SCOPES: dict[str, tuple[tuple[Program, ...], Any, int]] = {
    "a transaction and a reader": ((changes("t1"), reader), whole, 0),
    "write skew": (SKEW, skewed, 0),
    **(
        {
            "two transactions": (PAIR, whole, 0),
            "two transactions and a reader": ((*PAIR, reader), whole, 0),
            "two transactions of which one dies": (PAIR, whole, 1),
            "beside a writer and a publisher": ((changes("t1"), writer("w", "b"), publisher), whole, 0),
        }
        if sample.IS_PROOF
        else {}
    ),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_all_of_a_transaction_or_nothing_in_every_order(scope: str) -> None:
    programs, check, deaths = SCOPES[scope]
    found = run(programs, check, deaths=deaths)
    assert not found.violations, found.violations
    print(f"{scope}: {found.states:,} states, {found.endings:,} endings, depth {found.depth}")


# --- the exploration sees what is wrong


def test_tables_that_are_ratified_one_after_the_other_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def ratify(self: DatabaseRatifier, changes: Sequence[TableChange]) -> str | None:
        for change in changes:
            with self.begin() as connection:
                ratification._ratify(connection, change)
        return None

    monkeypatch.setattr(DatabaseRatifier, "ratify", ratify)
    assert run((changes("t1"), reader), whole).violations


def test_a_transaction_that_does_not_look_at_what_it_read_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratification, "is_latest", lambda *_: True)
    assert run(SKEW, skewed).violations


def test_a_reader_that_asks_for_each_table_by_itself_is_caught() -> None:
    def asks(env: Env, _: Acknowledge) -> None:
        commits = [CatalogCommits(begins(env.store), name, name) for name in NAMES]
        check_whole([writers_of(ManagedStore(Folder(env.store, c.table_id), c, env.new_id)) for c in commits])

    assert run((changes("t1"), asks), whole).violations
