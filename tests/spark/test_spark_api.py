"""Every method of Spark's readers, writers and catalog, and every statement of its grammar that takes a table, answers
for a table of ours as for one of Parquet files, or as the table of cases says.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests import sample
from tests.spark import method_cases, spark_api, statement_cases
from tests.spark.case_runs import Unchanged, names_here, unchanged_tables, wrong_answers
from tests.spark.places import KINDS, Places

pytestmark = pytest.mark.every_spark


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(spark, tmp_path_factory.mktemp("places"))


@pytest.fixture(scope="module")
def unchanged(places: Places) -> Iterator[Unchanged]:
    with unchanged_tables(places) as made:
        yield made


def test_every_method_of_spark_has_a_case() -> None:
    """Spark has new methods: add their cases to `method_cases.py`."""
    known = {name for names in method_cases.METHODS for name in names.split()}
    assert spark_api.methods() - known - method_cases.NOT_ABOUT_TABLES == set()


def test_every_statement_of_spark_has_a_case() -> None:
    """Spark's grammar has new statements: add their cases to `statement_cases.py`, or say that they name no table."""
    known = set(statement_cases.STATEMENTS) | statement_cases.NOT_ABOUT_TABLES | statement_cases.OF_PIPELINES
    assert spark_api.statements() - known == set()


@pytest.mark.parametrize("name", names_here())
@pytest.mark.usefixtures("generated_code")
def test_it_answers_as_it_should(name: str, places: Places, unchanged: Unchanged) -> None:
    assert wrong_answers(name, places, unchanged, sample.part(KINDS, 2)) == {}
