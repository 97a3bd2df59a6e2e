"""Who takes part: what is installed for each, which versions, and what it is told for the sake of speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPARK = "4.2.0"
HERE = Path(__file__).resolve().parent
SIDES = HERE / "sides"


@dataclass(frozen=True)
class Engine:
    """One of those that race.

    Attributes:
        label: on the page.
        side: the script in `sides` that runs it.
        requirements: what pip installs for it; `{tahoe}` stands for tahoe itself.
        coordinate: what it needs from Maven, or "".
        reads: the kind of table that it is given to read: `delta`, or `parquet` for the same files without a log.
        told: what of its own documentation on speed is used, for the page.
    """

    label: str
    side: str
    requirements: tuple[str, ...]
    coordinate: str = ""
    reads: str = "delta"
    told: str = ""


_OF_SPARK = "local[*], 8 shuffle partitions, 4 GB for the driver, as all that run on Spark"

ENGINES: Mapping[str, Engine] = {
    "tahoe": Engine("tahoe", "spark_side.py", ("{tahoe}", f"pyspark=={SPARK}"), told=_OF_SPARK),
    "tahoe-comet": Engine(
        "tahoe with Comet",
        "spark_side.py",
        ("{tahoe}", "pyspark==4.1.4"),
        "org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0",
        told=f"{_OF_SPARK}; half of the memory outside of the heap, which is where Comet works",
    ),
    "delta-spark": Engine(
        "delta-spark",
        "spark_side.py",
        ("delta-spark==4.4.0", f"pyspark=={SPARK}"),
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        told=f"{_OF_SPARK}; VACUUM deletes in parallel",
    ),
    "parquet": Engine(
        "Spark on Parquet",
        "spark_side.py",
        (f"pyspark=={SPARK}",),
        reads="parquet",
        told=f"{_OF_SPARK}; the same files",
    ),
    "sail": Engine(
        "Sail",
        "spark_side.py",
        ("pysail==0.7.2", "pyspark[connect]==4.1.4"),
        told="as it is; its own server on loopback",
    ),
    "delta-rs": Engine(
        "delta-rs", "delta_rs_side.py", ("deltalake==1.6.6", "pyarrow==26.0.1"), told="queries by its QueryBuilder"
    ),
    "duckdb": Engine(
        "DuckDB",
        "duckdb_side.py",
        ("duckdb==1.5.5", "duckdb-extension-delta==1.5.5"),
        told="attached with PIN_SNAPSHOT, as its page on speed says",
    ),
}

# Makes the data: generators and queries of TPC-H and TPC-DS.
DATA = Engine(
    "data", "data_side.py", ("duckdb==1.5.5", "duckdb-extension-tpch==1.5.5", "duckdb-extension-tpcds==1.5.5")
)
