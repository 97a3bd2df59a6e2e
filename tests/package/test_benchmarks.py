"""The benchmarks measure code that exists: they are run by hand, long after the functions that they time were
renamed.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from benchmarks import breakdown


@pytest.mark.parametrize("label", [*breakdown.APPEND, *breakdown.COUNT])
def test_a_part_that_the_breakdown_times_is_a_function_of_tahoe(label: str) -> None:
    module, name = {**breakdown.APPEND, **breakdown.COUNT}[label]
    assert callable(getattr(module, name, None)), f"{module.__name__} has no {name}"
