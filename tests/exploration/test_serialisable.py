"""The consistency model, checked on the code that commits: whatever the order of their storage calls, writers have run
one after the other.

The default is a sample; `make explore` goes through every scope.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tahoe.protocol.changes import conflict
from tahoe.protocol.changes.conflict import Intent, Winner, find_conflict
from tahoe.protocol.log.actions import Action, Add, Remove, remove_of
from tahoe.protocol.log.log_files import Kind
from tahoe.protocol.statistics.moved_rows import MovedRows, places_of
from tahoe.table.commit import carried_deletions, row_deletions, transaction
from tahoe.table.commit.transaction import Transaction
from tahoe.testing.explored_tables import Op, Row, all_done, each_row_once, in_some_order, run, stamps_rise
from tests import sample

ALL_SCOPES = sample.IS_PROOF

INSERT, UPDATE, DELETE = Op("insert"), Op("update", value="2"), Op("delete")
MARK, REMARK, COMPACT, OVERWRITE, CLEAR = (
    Op("mark"),
    Op("remark", value="2"),
    Op("compact"),
    Op("overwrite", value="2"),
    Op("clear"),
)
COPY, SORT = Op("copy"), Op("sort")
TWO_ROWS: tuple[Row, ...] = (("R", "1"), ("B", "1"))
FOUR_ROWS: tuple[Row, ...] = (("R", "1"), ("B", "1"), ("R", "3"), ("C", "1"))


@dataclass(frozen=True)
class Scope:
    """All programs of so many operations each over some keys and values."""

    shape: tuple[int, ...]
    keys: str
    values: str

    def ops(self) -> list[Op]:
        """Every operation of the model."""
        pairs = list(itertools.product(self.keys, self.values))
        return [
            *(Op(kind, *pair) for kind in ("insert", "update") for pair in pairs),
            *(Op("delete", key) for key in self.keys),
        ]

    def programs(self, ops: Sequence[Op]) -> Iterator[tuple[tuple[Op, ...], ...]]:
        """Writers with as many operations each may change places."""
        for chosen in itertools.product(ops, repeat=sum(self.shape)):
            parts = iter(chosen)
            found = tuple(tuple(itertools.islice(parts, count)) for count in self.shape)
            alike = [part for part in found if len(part) == self.shape[-1]]
            if [str(p) for p in alike] == sorted(str(p) for p in alike):
                yield found


# Two writers with three operations in all, over one or two keys and values; three writers with one each.
SCOPES = [
    *(Scope((2, 1), keys, values) for keys in ("R", "RB") for values in ("1", "12")),
    Scope((1, 1, 1), "R", "1"),
    Scope((1, 1, 1), "R", "12"),
]
BEYOND = [Op(kind, key) for kind in ("mark", "remark") for key in "RB"] + [
    UPDATE,
    INSERT,
    OVERWRITE,
    CLEAR,
    COMPACT,
    SORT,
    COPY,
]

# Of these none adds a row that may be there.
ONCE = [Op(kind, key) for kind in ("mark", "delete") for key in "RB"] + [REMARK, CLEAR, COMPACT]

# Of the programs of a scope one in so many, in a sample.
EVERY = 1 if ALL_SCOPES else 97


def explored(
    name: str, cases: Iterable[tuple[Sequence[Sequence[Op]], bool]], every: int = EVERY, **settings: Any
) -> None:
    chosen = list(cases)[::every]
    states = endings = depth = 0
    for programs, partitioned in chosen:
        found = run(programs, partitioned=partitioned, **settings)
        assert not found.violations, (programs, partitioned, found.violations)
        states, endings, depth = states + found.states, endings + found.endings, max(depth, found.depth)
    assert endings > len(chosen), "nothing was in another's way"
    print(
        f"{name}: {len(chosen)} programs, {states:,} states, {endings:,} endings, at most {depth} steps, no violation"
    )


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_every_order_of_storage_calls_is_an_order_of_operations(scope: Scope) -> None:
    is_small = len(scope.keys + scope.values) < 3
    explored(str(scope), itertools.product(scope.programs(scope.ops()), (False, True)), every=1 if is_small else EVERY)


@pytest.mark.parametrize("partitioned", [False, True])
def test_vectors_overwrites_and_compaction_keep_the_order_too(partitioned: bool) -> None:
    scope = Scope((2, 1), "RB", "1")
    explored("beyond the model", ((programs, partitioned) for programs in scope.programs(BEYOND)), start=TWO_ROWS)


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_compaction_is_in_nobodys_way(partitioned: bool) -> None:
    """Row deletions are carried over compactions, and compactions over row deletions: no row comes back, and none is
    there twice.
    """
    scope = Scope((2, 1), "RB", "1")
    programs = ((p, partitioned) for p in scope.programs(ONCE) if any(COMPACT in ops for ops in p))
    explored("compactions", programs, every=1 if ALL_SCOPES else 11, start=FOUR_ROWS, check=each_row_once)


@pytest.mark.parametrize("other", [MARK, REMARK, DELETE])
def test_neither_a_compaction_nor_a_deletion_gives_up(other: Op) -> None:
    start = (*FOUR_ROWS, ("C", "2"), ("D", "1"))  # there are two files to compact whatever is deleted
    found = run([[COMPACT], [other]], start=start, check=all_done)
    assert found.endings > 1
    assert not found.violations, found.violations
    assert run([[SORT], [other]], start=start, check=all_done).violations, (
        "where nothing is recorded one of them gives up"
    )


def test_the_weaker_level_keeps_its_own_law() -> None:
    scope = Scope((2, 1), "RB", "1")
    programs = [*scope.programs([INSERT, Op("insert", "B"), UPDATE, DELETE, MARK, REMARK, COMPACT])]
    weaker = {"delta.isolationLevel": "WriteSerializable"}
    explored(
        "WriteSerializable", ((p, False) for p in programs), start=TWO_ROWS, properties=weaker, check=in_some_order
    )
    assert run([[UPDATE], [INSERT]], properties=weaker).violations, (
        "an append that passes an update is what the level allows"
    )


@pytest.mark.parametrize(
    "programs", [((INSERT,), (UPDATE,)), ((UPDATE,), (DELETE,)), ((UPDATE,), (INSERT, DELETE)), ((REMARK,), (MARK,))]
)
@pytest.mark.parametrize("upkeep", [0, *([1] if ALL_SCOPES else [])])
def test_a_writer_may_die_before_any_call(programs: tuple[tuple[Op, ...], ...], upkeep: int) -> None:
    interval = {"delta.checkpointInterval": "1"} if upkeep else {}
    explored(f"deaths, upkeep={upkeep}", [(programs, False)], upkeep=upkeep, deaths=1, properties=interval)


def test_checkpoints_between_commits_change_nothing() -> None:
    programs = [((INSERT,), (UPDATE,)), *([((INSERT, UPDATE), (DELETE,)), ((MARK,), (REMARK,))] if ALL_SCOPES else [])]
    explored("upkeep", [(p, False) for p in programs], every=1, upkeep=1, properties={"delta.checkpointInterval": "1"})


def test_without_atomic_creation_a_commit_is_lost_and_the_trace_says_how() -> None:
    found = run([[INSERT], [INSERT]], atomic=False)
    ((wrong, trace),) = found.violations
    assert wrong.startswith(("acknowledged and not there", "version 1 shows"))
    assert len(trace) <= 12
    print(f"without atomic creation: {wrong}, after {' '.join(trace)}")


# --- the exploration sees what is wrong: mutations of the rules


def ignoring(kind: type[Action]) -> Callable[..., Any]:
    """The conflict check without one kind of the winner's actions."""

    def check(mine: Intent, winner: Winner, *rest: Any, **named: Any) -> Any:
        kept = tuple(action for action in winner.actions if not isinstance(action, kind))
        return find_conflict(mine, replace(winner, actions=kept), *rest, **named)

    return check


def skipping_the_first(mine: Intent, winner: Winner, *rest: Any, **named: Any) -> Any:
    return None if winner.version == 1 else find_conflict(mine, winner, *rest, **named)


def only_the_newest(self: Transaction) -> Transaction:
    newest = max(f.version for f in self.log.list_files(self._next_version) if f.kind is Kind.COMMIT)
    return self._rebased_onto(Winner(version=newest, actions=tuple(self.log.read_version(newest))))


rebased_onto = Transaction._rebased_onto
with_vector = row_deletions._with_vector


def keeping_row_ids(self: Transaction, winner: Winner) -> Transaction:
    return replace(rebased_onto(self, winner), row_id_high_water_mark=self.row_id_high_water_mark)


def without_vector(add: Add, now_ms: int, **_: Any) -> Remove:
    return remove_of(add, now_ms, data_change=False).replace(deletion_vector=None)


def in_order_of_paths(moved: MovedRows, canonical: Callable[[str], str]) -> Any:
    return places_of(
        {target: sorted(copied, key=lambda rows: rows.path) for target, copied in moved.items()}, canonical
    )


def changing_data(*arguments: Any) -> Add:
    return with_vector(*arguments).replace(data_change=True)


def old_stamps(self: Transaction) -> int:
    return self.base.timestamp_ms if self.base is not None else -1


MUTATIONS: dict[str, tuple[object, str, object, Sequence[Sequence[Op]], dict[str, Any]]] = {
    "no conflict check": (transaction, "find_conflict", lambda *_, **__: None, [[UPDATE], [INSERT]], {}),
    "the first winner is skipped": (transaction, "find_conflict", skipping_the_first, [[UPDATE], [INSERT]], {}),
    "only the newest winner is looked at": (
        Transaction,
        "_rebased",
        only_the_newest,
        [[UPDATE], [INSERT, Op("insert", "B")]],
        {"partitioned": True},
    ),
    "what winners add is ignored": (transaction, "find_conflict", ignoring(Add), [[UPDATE], [INSERT]], {}),
    "what winners remove is ignored": (transaction, "find_conflict", ignoring(Remove), [[UPDATE], [DELETE]], {}),
    **{
        f"a compaction: {wrong}": (
            module,
            attribute,
            mutant,
            [[COMPACT], programs],
            {"start": FOUR_ROWS, "check": each_row_once},
        )
        for wrong, module, attribute, mutant, programs in [
            ("a remove names an older vector", carried_deletions, "remove_of", without_vector, [MARK]),
            (
                "the order of its sources is assumed",
                carried_deletions,
                "places_of",
                in_order_of_paths,
                [Op("mark", "C")],
            ),
            ("what is carried counts as a change of data", row_deletions, "_with_vector", changing_data, [MARK]),
            ("rows of a removed source stay", carried_deletions, "all_places", lambda _: {}, [DELETE]),
            (
                "the rows of a winner stay",
                carried_deletions,
                "_with_rows",
                lambda log, mine, found: mine.copies,
                [MARK],
            ),
        ]
    },
    "vectors are merged though they overlap": (
        conflict,
        "_about_vector",
        lambda *_: iter(()),
        [[REMARK], [MARK]],
        {"start": TWO_ROWS},
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, mutant, programs, settings = MUTATIONS[name]
    assert not run(programs, **settings).violations
    monkeypatch.setattr(target, attribute, mutant)
    found = run(programs, **settings)
    assert found.violations, "the exploration is blind to this"
    wrong, trace = found.violations[0]
    print(f"{name}: caught at depth {len(trace)} after {found.states} states: {wrong}")


STAMPED = {"delta.enableInCommitTimestamps": "true", "delta.rowTrackingSuspended": "false"}


@pytest.mark.parametrize(
    ("attribute", "mutant"), [("_timestamp_before", old_stamps), ("_rebased_onto", keeping_row_ids)]
)
def test_a_rebase_that_keeps_its_old_stamps_is_caught(
    attribute: str, mutant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [[INSERT], [INSERT], [INSERT]]
    assert not run(programs, properties=STAMPED, check=stamps_rise).violations
    monkeypatch.setattr(Transaction, attribute, mutant)
    found = run(programs, properties=STAMPED, check=stamps_rise)
    assert found.violations, "a rebase that keeps its old stamp is not seen"
    print(f"{attribute} of the base: caught at depth {len(found.violations[0][1])}: {found.violations[0][0]}")
