"""What the Spark that runs the tests offers for tables: the methods of its readers, writers and catalog, and the
statements of its grammar. A new Spark adds its own by itself.
"""

from __future__ import annotations

from functools import cache

from pyspark.sql import DataFrameReader, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.catalog import Catalog
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

from tests.class_files import jars_of_spark

CLASSES = (Catalog, DataFrameReader, DataFrameWriter, DataFrameWriterV2, DataStreamReader, DataStreamWriter)

# The rules of the grammar whose alternatives are statements, or name a table.
_RULES = ("Statement", "DmlStatementNoWith", "InsertInto", "QueryPrimary", "RelationPrimary", "StreamRelationPrimary")

_PARSER = "org.apache.spark.sql.catalyst.parser.SqlBaseParser$"


def methods() -> frozenset[str]:
    """The public methods, as `DataFrameReader.load`."""
    return frozenset(
        f"{of.__name__}.{name}"
        for of in CLASSES
        for name in dir(of)
        if not name.startswith("_") and callable(getattr(of, name))
    )


@cache
def statements() -> frozenset[str]:
    """The labels of the alternatives of the rules, as Spark's parser has a class for each: `CreateTable`."""
    jars, found = jars_of_spark(), set[str]()
    rules = {f"{_PARSER}{rule}Context" for rule in _RULES}
    for name in jars.names():
        if name.startswith(_PARSER):
            read = jars.find(name)
            assert read is not None
            if rules & set(read.parents):
                found.add(name.removeprefix(_PARSER).removesuffix("Context"))
    return frozenset(found)
