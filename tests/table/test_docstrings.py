"""Each public method of `tahoe.Table` has an example in its docstring, which does what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import tahoe
from tests.docstrings import begin, methods_of, run


@pytest.mark.parametrize("method", methods_of(tahoe.Table))
def test_the_example_of_a_method(method: str, tmp_path: Path) -> None:
    run(tahoe.Table, method, begin(tmp_path), tmp_path)
