"""The model and the runner themselves: what SQL says of small examples, and that the runner sees every kind of
mistake.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dml import expressions, model
from tests.dml.engines import TheModel
from tests.dml.expressions import OPERATORS, SOURCE, TARGET, Column, Expression, Literal, Operator, apply
from tests.dml.model import Clause, ColumnDef, Merge, Refusal, Row, Source, run
from tests.dml.runner import Failure, lives

NAN = float("nan")
UNKNOWN = None


@pytest.mark.parametrize(
    ("operator", "arguments", "value"),
    [
        ("and", (False, UNKNOWN), False),
        ("and", (True, UNKNOWN), UNKNOWN),
        ("or", (True, UNKNOWN), True),
        ("or", (False, UNKNOWN), UNKNOWN),
        ("not", (UNKNOWN,), UNKNOWN),
        ("=", (1, None), UNKNOWN),
        ("<=>", (None, None), True),
        ("<=>", (1, None), False),
        ("=", (NAN, NAN), True),
        (">", (NAN, float("inf")), True),
        ("<=", (NAN, NAN), True),
        ("=", (0.0, -0.0), True),
        ("in 2", (1, None, 2), UNKNOWN),
        ("in 2", (1, None, 1), True),
        ("not in 3", (1, None, 2, 3), UNKNOWN),
        ("between", (5, 6, None), False),
        ("between", (7, 6, None), UNKNOWN),
        ("isnan", (None,), False),
        ("%", (-7, 4), -3),
    ],
)
def test_operators(operator: str, arguments: tuple[Any, ...], value: Any) -> None:
    assert OPERATORS[operator].of(*arguments) is value or OPERATORS[operator].of(*arguments) == value


# --- MERGE

SCHEMA = (ColumnDef("k", "bigint"), ColumnDef("v", "int"))
BY_KEY = apply("=", Column(TARGET, ("k",), "t.k"), Column(SOURCE, ("k",), "s.k"))
TAKE = {"v": Column(SOURCE, ("v",), "s.v")}
NEVER = Literal("boolean", False)


def merged(target: list[tuple[Any, Any]], source: list[tuple[Any, Any]], *clauses: Clause) -> model.Outcome:
    rows = [Row({"k": k, "v": v}) for k, v in target]
    return run(Merge(Source("memory", SCHEMA, [{"k": k, "v": v} for k, v in source]), BY_KEY, clauses), rows, SCHEMA)


def pairs(outcome: model.Outcome) -> list[tuple[Any, Any]]:
    assert outcome.refusal is None
    return [(row["k"], row["v"]) for row in outcome.rows()]


def greater(side: str, number: int) -> Expression:
    return apply(">", Column(side, ("v",), f"{side}.v"), Literal("int", number))


def test_null_keys_never_match() -> None:
    found = merged([(None, 1)], [(None, 2)], Clause("matched", "update all"), Clause("not matched", "insert all"))
    assert pairs(found) == [(None, 1), (None, 2)]


def test_the_first_clause_that_applies_wins() -> None:
    clauses = [Clause("matched", "delete", greater(SOURCE, 10)), Clause("matched", "update", None, TAKE)]
    assert pairs(merged([(1, 1), (2, 2)], [(1, 11), (2, 3)], *clauses)) == [(2, 3)]


def test_two_source_rows_that_change_a_row_are_refused() -> None:
    twice = [(1, 5), (1, 6)]
    assert merged([(1, 1)], twice, Clause("matched", "update all")).refusal is Refusal.AMBIGUOUS
    assert merged([(1, 1)], twice, Clause("matched", "delete", greater(SOURCE, 0))).refusal is Refusal.AMBIGUOUS
    assert pairs(merged([(1, 1)], twice, Clause("matched", "delete"))) == []
    assert pairs(merged([(1, 1)], twice, Clause("not matched", "insert all"))) == [(1, 1)]
    one_of_them = merged([(1, 1)], twice, Clause("matched", "update all", greater(SOURCE, 5)))
    assert pairs(one_of_them) == [(1, 6)]
    assert one_of_them.may_refuse


def test_rows_without_a_source_row() -> None:
    clauses = [Clause("not matched by source", "update", greater(TARGET, 1), {"v": Literal("int", 0)})]
    found = merged([(1, 1), (2, 2), (3, 3)], [(3, 9)], *clauses)
    assert pairs(found) == [(1, 1), (2, 0), (3, 3)]
    assert found.changes() == [("update_preimage", {"k": 2, "v": 2}), ("update_postimage", {"k": 2, "v": 0})]


# --- the runner, with engines that are wrong


def survives(folder: Path) -> int:
    return sum(lives(TheModel(), folder, "copies, partitioned", range(12)))


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    assert survives(tmp_path) == 12 * 8


def _unwidened(left: Any, right: Any) -> Any:
    return None if left is None or right is None else left == right


MISTAKES = {
    "null keys match": ("=", lambda a, b: a == b),
    "NaN is not itself": ("=", _unwidened),
    "unknown is false under NOT": ("not", lambda v: not v),
    "unknown is false under <>": ("<>", lambda a, b: a != b),
    "coalesce takes the second": ("coalesce", lambda a, b: b),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_operator_is_found(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner is blind: it would not see this mistake of an engine."""
    name, of = MISTAKES[mistake]
    wrong = {**OPERATORS, name: Operator(OPERATORS[name].template, of)}
    _engine_with(monkeypatch, lambda statement, rows, schema: _under(wrong, statement, rows, schema))
    with pytest.raises(Failure):
        survives(tmp_path)


def _under(operators: dict[str, Operator], *asked: Any) -> model.Outcome:
    right = expressions.OPERATORS
    expressions.OPERATORS = operators
    try:
        return run(*asked)
    finally:
        expressions.OPERATORS = right


def _engine_with(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    """The engine runs statements otherwise than the model; `tests.dml.runner` has its own name for what is right."""
    monkeypatch.setattr(model, "run", wrong)


@pytest.mark.parametrize(
    "mistake", ["a row is lost", "-0.0 becomes 0.0", "the last clause wins", "a refusal is forgotten"]
)
def test_a_wrong_result_is_found(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(statement: model.Statement, rows: Any, schema: Any) -> model.Outcome:
        if mistake == "the last clause wins" and isinstance(statement, Merge):
            return run(
                Merge(statement.source, statement.condition, statement.clauses[::-1], statement.evolves), rows, schema
            )
        found = run(statement, rows, schema)
        match mistake:
            case "a row is lost":
                return model.Outcome(found.effects[1:], found.schema, found.refusal)
            case "-0.0 becomes 0.0":
                return model.Outcome(tuple(_without_sign(e) for e in found.effects), found.schema, found.refusal)
            case "a refusal is forgotten":
                return model.Outcome(found.effects, found.schema)
        return found

    _engine_with(monkeypatch, wrong)
    with pytest.raises(Failure, match=r"seed \d+, statement \d+"):
        survives(tmp_path)


def _without_sign(effect: model.Effect) -> model.Effect:
    number = None if effect.after is None else effect.after["d"]
    after = effect.after if effect.after is None or number is None else {**effect.after, "d": number + 0.0}
    return model.Effect(effect.verb, effect.before, after, effect.group)
