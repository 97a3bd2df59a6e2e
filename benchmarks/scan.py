"""How fast is a scan of a Delta table, compared with plain Parquet on the same files and the same Spark?"""

from __future__ import annotations

import shutil

from benchmarks.measure import FOLDER, Comparison, compare, lineitem, link_data_files, report, start_spark


def run() -> list[Comparison]:
    spark = start_spark()
    folder = FOLDER / f"scan-{lineitem().split('/')[-2]}"
    shutil.rmtree(folder, ignore_errors=True)
    paths = {source: folder / source for source in ("delta", "parquet")}
    spark.read.parquet(lineitem()).write.format("delta").save(str(paths["delta"]))
    link_data_files(paths["delta"], paths["parquet"])
    columns = spark.read.parquet(lineitem()).columns
    questions = {
        "sum 3 columns of lineitem": ["sum(l_quantity)", "sum(l_extendedprice)", "sum(l_discount)"],
        "max of all 16 columns of lineitem": [f"max({column})" for column in columns],
    }

    def read(source: str, expressions: list[str]) -> list[object]:
        frame = spark.read.format(source).load(str(paths[source]))
        return list(frame.selectExpr(*expressions).collect()[0])

    found = []
    for question, expressions in questions.items():
        assert read("delta", expressions) == read("parquet", expressions), "both sides must answer alike"
        found.append(
            compare(
                question,
                peer="Spark, the same files as Parquet",
                ours=lambda e=expressions: read("delta", e),
                theirs=lambda e=expressions: read("parquet", e),
                goal=1.05,
            )
        )
    return found


if __name__ == "__main__":
    report(*run())
