"""The driver of a Connect server for declarative pipelines: `python pipelines.py PORT`.

It runs the code of the page about pipelines as it is printed, with that port, over a table `bronze`, and appends to it
for each line that it reads.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "pipelines.md"
STAYS = "threading.Event().wait()"


def blocks(kind: str) -> list[str]:
    """The blocks of the page."""
    return [part.split("```")[0] for part in PAGE.read_text(encoding="utf-8").split(f"```{kind}\n")[1:]]


def serve(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE bronze (id LONG, name STRING) USING delta")
    print("ready", flush=True)
    for number, _ in enumerate(sys.stdin):
        spark.sql(f"INSERT INTO bronze VALUES ({number}, 'ada'), ({100 + number}, 'bea')")
        print("appended", flush=True)
    spark.stop()


def main() -> None:
    code = blocks("python")[2].replace("15002", sys.argv[1])
    assert STAYS in code
    exec(code.replace(STAYS, "serve(spark)"), {"serve": serve})


if __name__ == "__main__":
    main()
