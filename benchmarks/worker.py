"""One side of a comparison, in its own process and Python environment: a Spark session that times the expressions that
it reads from stdin.

It also runs where tahoe is not installed, so it imports tahoe only on tahoe's side.

An expression may use `spark`, `DeltaTable` (each side's own, with the same methods), `F` (`pyspark.sql.functions`),
`import_module`, `peak_megabytes_of_all`, and names that are sent with it.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from importlib import import_module

from pyspark.sql import SparkSession, functions

from benchmarks.peak_memory import peak_megabytes_of_all


def session(side: str, folder: str, jars: str) -> SparkSession:
    """A session with the same settings on all sides.

    Args:
        side: `tahoe`; `native`, which is tahoe with Comet; `reference`, also with Comet as `native-reference`; `spark`
            for Spark alone.
        jars: what the session needs of JARs, separated by commas: folders of the reference's JARs, and Comet's JAR.
    """
    settings = {
        "spark.driver.memory": os.environ.get("DRIVER_MEMORY", "4g"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": os.path.join(folder, f"warehouse-{side}"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    folders = [place for place in jars.split(",") if os.path.isdir(place)]
    comet = next((place for place in jars.split(",") if os.path.isfile(place)), None)
    if side in ("reference", "native-reference"):
        settings["spark.jars"] = ",".join(
            sorted(jar for place in folders for jar in glob.glob(os.path.join(place, "*.jar")))
        )
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if side == "native-reference":
        settings |= import_module("tahoe.native_settings").native_settings(
            settings, import_module("pyspark").__version__, "", comet
        )
    builder = SparkSession.builder.master("local[*]").appName(f"benchmark {side}")
    for name, value in settings.items():
        builder = builder.config(name, value)
    if side == "native":
        import_module("tahoe").configure(builder, native=comet)
    spark = builder.getOrCreate()
    if side == "tahoe":
        import_module("tahoe").enable(spark)
    return spark


def main() -> None:
    side, folder, jars = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Spark prints must not be taken for an answer
    spark = session(side, folder, jars)
    packages = {"tahoe": "tahoe", "native": "tahoe", "reference": "delta"}  # delta is not where Comet is
    delta_table = import_module(packages[side]).DeltaTable if side in packages else None
    known = {
        "spark": spark,
        "DeltaTable": delta_table,
        "F": functions,
        "import_module": import_module,
        "peak_megabytes_of_all": peak_megabytes_of_all,
    }
    print(json.dumps({"ready": spark.version}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        code = compile(asked["code"], "<asked>", "eval")
        began = time.perf_counter()
        answer = eval(code, {**known, **asked["names"]})
        seconds = time.perf_counter() - began
        rows = [list(map(str, row)) for row in answer] if isinstance(answer, list) else None
        print(json.dumps({"seconds": seconds, "rows": rows}), file=out, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
