"""What do clients of Spark Connect wait for small queries? Fifty clients of `tahoe connect-server`, and of a server
without tahoe.

Both servers run the same Spark with the same settings. Every client sends its next query when it has the answer to the
last one, so the machine is busy, and a latency contains the time that a query waits for the others.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measure import FOLDER, ROUNDS, Comparison, report

CLIENTS = int(os.environ.get("CLIENTS", "50"))
# Queries of each client in a round.
QUERIES = int(os.environ.get("QUERIES", "2"))
# Rounds that are not measured: the JVM compiles what small queries need only after thousands of them.
WARM_UP = int(os.environ.get("WARM_UP", "5"))
GOAL = 1.1

SETTINGS = {
    "spark.master": "local[*]",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": str(FOLDER / "connect" / "warehouse"),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

# A server as Spark has it. It says where it is as ours does, and ends with its standard input.
PLAIN = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
name = "org.apache.spark.sql.connect.service.SparkConnectService$"
service = spark._jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)
service.start(spark.sparkContext._jsc.sc())
print(f"ready: sc://localhost:{service.localPort()}", flush=True)
sys.stdin.read()
"""


@contextmanager
def serving(*command: str) -> Iterator[list[SparkSession]]:
    """A server's clients."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("SPARK_CONNECT_MODE_ENABLED", None)  # set by the clients of the other server
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if not said.startswith("ready: "):
            raise RuntimeError(f"the server did not start: {' '.join(command)}")
        clients = [SparkSession.builder.remote(said.split()[1]).create() for _ in range(CLIENTS)]
        try:
            yield clients
        finally:
            for client in clients:
                client.stop()
    finally:
        process.terminate()
        process.communicate(timeout=120)


def run() -> list[Comparison]:
    folder = FOLDER / "connect"
    shutil.rmtree(folder, ignore_errors=True)
    conf = [part for name, value in SETTINGS.items() for part in ("--conf", f"{name}={value}")]
    tahoe = str(Path(sys.executable).with_name("tahoe"))
    plain = json.dumps({**SETTINGS, "spark.connect.grpc.binding.port": "0"})
    with (
        serving(tahoe, "connect-server", "--port", "0", *conf) as ours,
        serving(sys.executable, "-c", PLAIN, plain) as theirs,
    ):
        rows = ours[0].range(10_000).selectExpr("id", "id % 100 AS k", "cast(id AS STRING) AS name").coalesce(1)
        rows.write.parquet(str(folder / "parquet"))
        rows.write.format("delta").save(str(folder / "delta"))
        parquet, delta = (
            f"SELECT count(*), max(name) FROM {name}.`{folder}/{name}` WHERE k = 7" for name in ("parquet", "delta")
        )
        found = [
            _compared("without a table", ours, theirs, *["SELECT count(*) FROM range(1000) WHERE id % 7 = 3"] * 2),
            _compared("the same Parquet file", ours, theirs, parquet, parquet),
            _compared("a Delta table, and the same rows as Parquet", ours, theirs, delta, parquet),
        ]
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _compared(
    what: str, ours: Sequence[SparkSession], theirs: Sequence[SparkSession], our_query: str, their_query: str
) -> Comparison:
    """The median latency of each round; the sides take turns."""
    latencies: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(WARM_UP + ROUNDS):
        sides = [("ours", ours, our_query), ("theirs", theirs, their_query)]
        for name, clients, query in sides if number % 2 else sides[::-1]:
            median = statistics.median(_round(clients, query))
            if number >= WARM_UP:
                latencies[name].append(median)
    return Comparison(
        question=f"latency of small queries of {CLIENTS} clients: {what}",
        peer="a Connect server without tahoe",
        ours=latencies["ours"],
        theirs=latencies["theirs"],
        goal=GOAL,
        what=(
            f"Latencies of clients: the medians of {CLIENTS * QUERIES} queries, each sent when its client has the "
            f"last answer"
        ),
    )


def _round(clients: Sequence[SparkSession], query: str) -> list[float]:
    """The seconds of each query."""
    with ThreadPoolExecutor(len(clients)) as threads:
        return [seconds for found in threads.map(lambda client: _asked(client, query), clients) for seconds in found]


def _asked(client: SparkSession, query: str) -> list[float]:
    found = []
    for _ in range(QUERIES):
        began = time.perf_counter()
        client.sql(query).collect()
        found.append(time.perf_counter() - began)
    return found


if __name__ == "__main__":
    report(*run())
