"""What libraries do with a table of ours, in one session that none of them enables. It prints what it finds as JSON."""

import json
import sys

import great_expectations as gx
import pandera.pyspark as pa
import pyspark.sql.types as t
from delta.tables import DeltaTable
from kedro.io import DataCatalog
from kedro_datasets.spark import DeltaTableDataset, SparkDataset
from pyspark.sql import SparkSession

folder = sys.argv[1]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()


def kedro() -> dict[str, object]:
    """A table that a node writes as Spark's dataset, and another reads as Delta's."""
    path = f"{folder}/weather"
    catalog = DataCatalog(
        {
            "weather@spark": SparkDataset(filepath=path, file_format="delta"),
            "weather@delta": DeltaTableDataset(filepath=path),
        }
    )
    before = catalog.exists("weather@delta")
    catalog.save("weather@spark", spark.range(5).selectExpr("id", "id * 10 AS degrees"))
    loaded = catalog.load("weather@delta")
    loaded.update("id = 4", {"degrees": "0"})
    found = catalog.load("weather@spark").agg({"degrees": "sum"}).head()[0]
    return {
        "before": before,
        "after": catalog.exists("weather@delta"),
        "is delta": isinstance(loaded, DeltaTable),
        "sum": found,
    }


class Weather(pa.DataFrameModel):
    id: t.LongType() = pa.Field(ge=0)
    degrees: t.LongType() = pa.Field(lt=30)


def pandera() -> list[str]:
    checked = Weather.validate(check_obj=spark.read.format("delta").load(f"{folder}/weather"))
    return sorted(json.loads(json.dumps(checked.pandera.errors, default=str)).get("DATA", {}))


def expectations() -> dict[str, object]:
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_spark("spark").add_dataframe_asset("weather")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(
        {"dataframe": spark.read.format("delta").load(f"{folder}/weather")}
    )
    kept = batch.validate(gx.expectations.ExpectColumnValuesToNotBeNull(column="id"))
    broken = batch.validate(gx.expectations.ExpectColumnValuesToBeBetween(column="degrees", max_value=10))
    return {"kept": kept.success, "broken": broken.success, "rows": broken.result["unexpected_count"]}


print("FOUND " + json.dumps({"kedro": kedro(), "pandera": pandera(), "expectations": expectations()}))
