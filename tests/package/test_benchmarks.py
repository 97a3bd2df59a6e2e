"""The benchmarks measure code that exists: they are run by hand, long after the functions that they time were
renamed.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyspark")

from benchmarks import breakdown, figure4_page


@pytest.mark.parametrize("label", [*breakdown.APPEND, *breakdown.COUNT])
def test_a_part_that_the_breakdown_times_is_a_function_of_tahoe(label: str) -> None:
    module, name = {**breakdown.APPEND, **breakdown.COUNT}[label]
    assert callable(getattr(module, name, None)), f"{module.__name__} has no {name}"


def test_the_picture_of_many_partitions_tells_a_time_that_was_not_reached() -> None:
    """Otherwise a system that does not come to an end looks as good as one that was not asked."""
    times = {"tahoe": (0.2, 0.3), "reference": (2.0, None), "parquet": (None, None)}
    figures = [
        {
            "storage": "local",
            "partitions": partitions,
            "system": system,
            "step": "one",
            "seconds": seconds,
            "processor_seconds": seconds,
            "megabytes": 2048.0,
            "failure": "" if seconds else ("java.lang.OutOfMemoryError" if system == "parquet" else "> 60 s"),
        }
        for system, of_system in times.items()
        for partitions, seconds in zip((1000, 1_000_000), of_system, strict=True)
    ]
    points = figure4_page.points_of([{"figures": figures}])
    assert [line for line in figure4_page.tables(points) if "|" in line][2:] == [
        "| one partition, once open | tahoe | 0.20 s; 0.20; 2.0 GB | 0.30 s; 0.30; 2.0 GB |",
        "|  | the reference | 2.0 s; 2.0; 2.0 GB | > 60 s |",
        "|  | Parquet | fails | fails |",
    ]
    picture = ElementTree.fromstring(figure4_page.picture(points))
    drawn = Counter(element.get("class") for element in picture.iter())
    assert (drawn["line"], drawn["beyond"], drawn["open"]) == (2, 1, 1)
