"""Which files a planned scan reads, as text: Spark reuses what it reads where two such texts are equal."""

from __future__ import annotations

import pytest

from tahoe.protocol.types.predicate import And, Column, Comparison, In, IsNull, Literal, Not, Or, Predicate
from tahoe.spark.reading.scan import Selection


def name(text: str) -> str:
    """An equal text that is another object."""
    return "".join(list(text))


def shared() -> Predicate:
    column = Column(("part", "part"))
    return Or((Not(IsNull(column)), And((In(column, ("a", "a")), Comparison("=", column, Literal(1)), IsNull(column)))))


def distinct() -> Predicate:
    def column() -> Column:
        return Column((name("part"), name("part")))

    among = In(column(), (name("a"), name("a")))
    return Or((Not(IsNull(column())), And((among, Comparison(name("="), column(), Literal(1)), IsNull(column())))))  # type: ignore[arg-type]


def test_equal_selections_are_equal_texts_whatever_objects_they_share() -> None:
    assert shared() == distinct()
    assert Selection("plain", shared(), "1").encode() == Selection("plain", distinct(), name("1")).encode()


@pytest.mark.parametrize("selection", [Selection(), Selection("marked", shared(), "1"), Selection(within="2")])
def test_a_selection_comes_back_from_its_text(selection: Selection) -> None:
    assert Selection.decode(selection.encode()) == selection


def test_other_selections_are_other_texts() -> None:
    one, text = Comparison("=", Column(("a",)), Literal(1)), Comparison("=", Column(("a",)), Literal("1"))
    assert Selection(predicate=one).encode() != Selection(predicate=text).encode()
