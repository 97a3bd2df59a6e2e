"""A driver that loads the files of a folder, FOLDER/in, which is killed: `python killed_copy.py FOLDER forever|now`.

It prints a line when Spark is there. With `now` it loads what is there, prints how many files are left to load, and ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import Row, SparkSession

import tahoe

# A program of seconds is over before compiled code has paid for its compilation.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def main() -> None:
    folder, until = Path(sys.argv[1]), sys.argv[2]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = tahoe.enable(builder.config("spark.log.level", "ERROR").config(map=INTERPRETED).getOrCreate())

    def load() -> Row:
        counts = tahoe.copy_into(spark, str(folder / "table"), folder / "in", format="json").first()
        assert counts is not None
        return counts

    print("enabled", flush=True)
    load()
    while until == "forever":
        load()
    print("left", load().num_loaded_files, flush=True)


if __name__ == "__main__":
    main()
