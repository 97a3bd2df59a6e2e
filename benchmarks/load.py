"""How fast is a table written, compared with plain Parquet from the same rows on the same Spark?"""

from __future__ import annotations

import shutil

from benchmarks.measure import FOLDER, Comparison, compare, lineitem, report, start_spark


def run() -> list[Comparison]:
    spark = start_spark()
    rows = spark.read.parquet(lineitem())
    path = str(FOLDER / "load")

    def write(source: str, by: list[str]) -> None:
        rows.write.format(source).partitionBy(*by).save(path)

    found = [
        compare(
            question,
            peer="df.write.parquet",
            ours=lambda by=by: write("delta", by),
            theirs=lambda by=by: write("parquet", by),
            before=lambda: shutil.rmtree(path, ignore_errors=True),
            goal=1.05,
        )
        for question, by in {"load lineitem": [], "load lineitem, partitioned by l_shipmode": ["l_shipmode"]}.items()
    ]
    shutil.rmtree(path, ignore_errors=True)
    return found


if __name__ == "__main__":
    report(*run())
