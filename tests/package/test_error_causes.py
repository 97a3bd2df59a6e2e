"""An error that tells another one as its reason says what happened, once: not the table, the advice and the SQLSTATE of
both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tahoe import errors
from tahoe.errors import DeltaError
from tahoe.errors.root import cause_text

SOURCE = Path(errors.__file__).parents[1]
CLASSES = {name for name in errors.__all__ if name.endswith(("Error", "Exception"))}
LEAVES = [kind for name in sorted(CLASSES) if not (kind := getattr(errors, name)).__subclasses__()]


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_a_cause_names_its_table_no_second_time(kind: type[DeltaError]) -> None:
    cause = kind(**{name: "/data/t" if name in ("table", "location") else "x" for name in kind.parameter_names()})
    told = cause_text(cause)
    assert told
    assert "/data/t" not in told
    assert cause.sqlstate not in told
    assert not told.endswith(".")


def whole_causes(tree: ast.AST) -> Iterator[int]:
    """The lines at which a handler of Delta's errors makes a text of the whole error."""
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.type is None or handler.name is None:
            continue
        caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
        for node in ast.walk(handler) if caught & CLASSES else ():
            match node:
                case ast.keyword(arg="detail", value=ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)])) if (
                    name == handler.name
                ):
                    yield node.value.lineno
                case ast.keyword(arg="detail", value=ast.JoinedStr(values=parts)):
                    texts = [
                        p.value.id for p in parts if isinstance(p, ast.FormattedValue) and isinstance(p.value, ast.Name)
                    ]
                    if handler.name in texts:
                        yield node.value.lineno


def test_no_detail_is_the_whole_text_of_another_error() -> None:
    found = {
        str(path.relative_to(SOURCE)): list(whole_causes(ast.parse(path.read_text("utf-8"))))
        for path in SOURCE.rglob("*.py")
    }
    assert {path: lines for path, lines in found.items() if lines} == {}
