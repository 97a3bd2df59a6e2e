"""Which expressions a generated column may have: by records of what Spark says of their parts, without Spark."""

from __future__ import annotations

import pytest

from tahoe.errors import (
    AggregateInGeneratedColumnError,
    FunctionInGeneratedColumnError,
    GeneratedColumnExpressionError,
    NonDeterministicGeneratedColumnError,
)
from tahoe.spark.jvm.plans import Expression
from tahoe.spark.writing.column_rules import _check_kind


def part(kind: str = "Add", *classes: str, is_deterministic: bool = True) -> Expression:
    return Expression(kind=kind, classes=frozenset(classes), sql=f"{kind}(a)", is_deterministic=is_deterministic)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (part("Sum", "aggregate.AggregateFunction"), AggregateInGeneratedColumnError),
        (part("WindowExpression", "WindowExpression"), AggregateInGeneratedColumnError),
        (part("PythonUDF", "UserDefinedExpression"), FunctionInGeneratedColumnError),
        (part("ScalarSubquery", "SubqueryExpression"), GeneratedColumnExpressionError),
        (part("Explode", "Generator"), GeneratedColumnExpressionError),
        (part("Rand", is_deterministic=False), NonDeterministicGeneratedColumnError),
        (part("Now"), NonDeterministicGeneratedColumnError),
        (part("InputFileName"), NonDeterministicGeneratedColumnError),
        (part("CurrentDate"), NonDeterministicGeneratedColumnError),
    ],
    ids=lambda value: value.kind if isinstance(value, Expression) else None,
)
def test_one_such_part_is_enough(bad: Expression, error: type[GeneratedColumnExpressionError]) -> None:
    with pytest.raises(error) as raised:
        _check_kind([part(), bad], "c", "the text", "t")
    assert type(raised.value) is error


def test_any_other_expression_may_be() -> None:
    _check_kind([part(), part("AttributeReference"), part("Cast")], "c", "the text", "t")
