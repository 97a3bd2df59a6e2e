"""A user's program for spark-submit: a session, a stream's function, and what they read, printed as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession

import tahoe
from tests.spark.foreign import mark


def main(folder: str) -> None:
    spark = tahoe.enable(SparkSession.builder.getOrCreate())
    path = f"{folder}/t"
    spark.range(0, 10, 1, 1).write.format("delta").save(path)
    mark(path, {0: [1, 2]})
    spark.sql(f"CREATE TABLE submitted USING delta LOCATION '{path}'")
    found = {
        "read": spark.table("submitted").count(),
        "capitals": [
            spark.sql(f"SELECT count(*) FROM {name}.`{path}`").head()[0] for name in ("delta", "Delta", "DELTA")
        ],
        "in foreachBatch": [],
    }

    def handle(batch: DataFrame, _: int) -> None:
        session = batch.sparkSession
        found["in foreachBatch"].append(session.read.format("delta").load(path).count())
        batch.limit(1).selectExpr("value as id").write.format("delta").mode("append").save(f"{folder}/out")
        found["in foreachBatch"].append(session.sql(f"SELECT count(*) FROM delta.`{folder}/out`").head()[0])

    (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 5)
        .load()
        .writeStream.foreachBatch(handle)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(once=True)
        .start()
        .awaitTermination()
    )
    print("FOUND " + json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
