"""Every error can be raised under Spark."""

from __future__ import annotations

import pyspark.errors
import pytest

import tahoe.errors
from tahoe.errors import DeltaError

CLASSES = [kind for name in tahoe.errors.__all__ if issubclass(kind := getattr(tahoe.errors, name), DeltaError)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_class_of_pyspark_exists(kind: type[DeltaError]) -> None:
    assert hasattr(pyspark.errors, kind.pyspark_class)
