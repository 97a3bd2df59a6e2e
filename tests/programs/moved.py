"""Enables a session in which no access through reflection finds its field, as on a Spark or py4j whose internals have
moved.

    python tests/programs/moved.py FOLDER

Prints the warnings, and what works all the same, as JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

import tahoe
from tahoe.spark.api import session

FIELD = "throws NoSuchFieldException {"
FIELD_OF_PY4J = "holder.getDeclaredField(name)"


def sources(folder: Path) -> Path:
    """The Java sources, with every look-up of a field failing."""
    copied = folder / "java"
    shutil.copytree(session.JAVA_SOURCES, copied)
    for name, before, after in (
        ("Fields", FIELD, FIELD + " if (true) throw new NoSuchFieldException(name);"),
        ("Connections", FIELD_OF_PY4J, 'holder.getDeclaredField(name + "Moved")'),
    ):
        path = copied / "delta" / f"{name}.java"
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
    return copied


def main(folder: Path) -> None:
    builder = SparkSession.builder.config(map=json.loads((folder / "settings.json").read_text()))
    spark = builder.getOrCreate()
    session.JAVA_SOURCES = sources(folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert tahoe.enable(spark) is spark
    table = f"delta.`{folder}/table`"
    spark.range(3).write.format("delta").save(f"{folder}/table")
    spark.sql(f"INSERT INTO {table} VALUES (3)")
    tahoe.DeltaTable.forPath(spark, f"{folder}/table").delete("id = 0")
    found = {
        "warnings": sorted(str(warning.message) for warning in said),
        "operations": [row.operation for row in tahoe.sql(spark, f"DESCRIBE HISTORY {table}").collect()],
        "rows": sorted(row.id for row in spark.table(table).where("id < 3").collect()),
        "in a new session": spark.newSession().table(table).count(),
    }
    print("FOUND " + json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
