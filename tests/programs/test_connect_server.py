"""`tahoe connect-server`: remote clients have all of Delta, with `tahoe.DeltaTable`, with the reference's client, and
with neither.

One server for the file; its last test shuts it down.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException
from pyspark.errors.exceptions import connect
from pyspark.errors.exceptions.connect import SparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code
from pyspark.sql.types import DateType, IntegerType, LongType, StructField, StructType

import tahoe
from tahoe.spark.api.connect.table import RemoteDeltaTable
from tahoe.spark.jvm.failures import class_for_clients
from tests.programs.connect_servers import PATIENCE_SECONDS, ROOT, TOKEN, Gate, Running, Server, serving, until
from tests.spark.case_runs import names_here, unchanged_tables, wrong_answers
from tests.spark.places import Places


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), "--token", TOKEN) as found:
        yield found


@pytest.fixture
def spark(server: Server) -> Iterator[SparkSession]:
    session = server.client()
    yield session
    session.stop()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture(params=["ours", "theirs"])
def client(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """The module with `DeltaTable`: ours, or delta-spark's, which knows nothing of tahoe."""
    classes = connect.EXCEPTION_CLASS_MAPPING  # of conflicts, once one of the clients has been used
    if request.param == "ours":
        for name in [name for name in classes if name.startswith("io.delta.")]:
            monkeypatch.delitem(classes, name)
        return tahoe.tables
    found = sorted(ROOT.glob(".venv-reference/lib/python*/site-packages/delta"))
    if not found:
        pytest.skip("delta-spark's Python package is not there: make interop installs it in .venv-reference")
    alone = tmp_path_factory.mktemp("reference")
    (alone / "delta").symlink_to(found[0])
    monkeypatch.syspath_prepend(str(alone))
    import delta.tables  # noqa: PLC0415 - found in the line above

    return delta.tables


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_the_line_that_says_ready_says_how_to_connect(server):
    assert f'SparkSession.builder.remote("{server.url}/;token=...").getOrCreate()' in server.said
    assert TOKEN not in server.said


def test_a_client_without_the_token_is_refused(server):
    with pytest.raises(PySparkException, match=r"(?i)token|unauthenticated"):
        SparkSession.builder.remote(f"{server.url}/;token=wrong").create().range(1).collect()


# Streams that call functions of the client, and files of other formats, are left out.
SAMPLE = [name for name in names_here() if "Stream" not in name][::12]


@pytest.mark.every_spark
@pytest.mark.parametrize("name", SAMPLE)
def test_methods_and_statements_answer_a_client_as_they_should(server, tmp_path, name):
    """A sample of the table of cases: tests/spark/test_spark_api.py has them all."""
    spark = server.client()
    try:
        places = Places(spark, tmp_path)
        with unchanged_tables(places) as unchanged:
            assert wrong_answers(name, places, unchanged, ("name", "partitioned path")) == {}
    finally:
        spark.stop()


@pytest.mark.every_spark
def test_a_client_without_tahoe_has_every_statement(spark):
    spark.sql(
        "CREATE TABLE plain (id BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.range(10).selectExpr("id", "cast(id AS STRING) AS v").write.format("delta").mode("append").saveAsTable(
        "plain"
    )
    assert spark.sql("DELETE FROM plain WHERE id < 3").head() == Row(num_affected_rows=3)
    assert spark.sql("UPDATE plain SET v = :v WHERE id = 5", args={"v": "five"}).head() == Row(num_affected_rows=1)
    source = spark.createDataFrame([(5, "V"), (50, "L")], "id LONG, v STRING")
    source.createOrReplaceTempView("s")
    merged = spark.sql(
        "MERGE INTO plain USING s ON plain.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert merged.head()[0] == 2
    assert ids(spark.table("plain")) == [3, 4, 5, 6, 7, 8, 9, 50]
    assert ids(spark.sql("SELECT * FROM plain VERSION AS OF 1")) == list(range(10))
    assert [row.operation for row in spark.sql("DESCRIBE HISTORY plain LIMIT 2").collect()] == ["MERGE", "UPDATE"]


def test_a_client_loads_files_once_and_sees_a_preview(spark, folder):
    spark.range(3).selectExpr("id", "'x' AS v").write.json(f"{folder}/in")
    spark.sql("CREATE TABLE loaded (id BIGINT, v STRING) USING delta")
    call = {"table": "loaded", "path": f"{folder}/in", "format": "JSON"}
    assert ids(tahoe.copy_into(spark, **call, validate=True)) == [0, 1, 2]
    statement = f"COPY INTO loaded FROM '{folder}/in' FILEFORMAT = JSON"
    assert spark.sql(statement).head().num_inserted_rows == 3
    assert spark.sql(statement).head().num_inserted_rows == 0
    assert tahoe.copy_into(spark, **call, force=True).head().num_inserted_rows == 3
    assert ids(spark.table("loaded")) == [0, 0, 1, 1, 2, 2]


@pytest.mark.every_spark
def test_a_client_changes_several_tables_at_once(server, tmp_path):
    """With tahoe's function, and by statements alone; other clients see all of it or nothing."""
    one, other = (server.client() for _ in range(2))
    for session in (one, other):
        for name, value in {
            "": "delta.AttachedCatalog",
            ".url": f"sqlite:///{tmp_path}/l.db",
            ".root": str(tmp_path),
        }.items():
            session.conf.set(f"spark.sql.catalog.lake{name}", value)
    one.sql("CREATE SCHEMA lake.shop")
    for table in ("orders", "stock"):
        one.sql(f"CREATE TABLE lake.shop.{table} AS SELECT 0L AS id")
    with tahoe.transaction(one, catalog="lake"):
        for table in ("orders", "stock"):
            one.range(1, 3).write.format("delta").mode("append").saveAsTable(f"lake.shop.{table}")
            assert ids(one.table(f"lake.shop.{table}")) == [0, 1, 2]
            assert ids(other.table(f"lake.shop.{table}")) == [0]
    assert ids(other.table("lake.shop.stock")) == ids(other.table("lake.shop.orders")) == [0, 1, 2]
    other.sql("USE lake.shop")
    for statement in ("BEGIN TRANSACTION", "DELETE FROM orders", "ROLLBACK"):
        other.sql(statement)
    assert ids(one.table("lake.shop.orders")) == [0, 1, 2]
    for session in (one, other):
        session.stop()


def test_merge_into_of_a_dataframe(spark):
    spark.range(3).write.format("delta").saveAsTable("merged")
    spark.range(2, 5).alias("s").mergeInto(
        "merged", F.col("s.id") == F.col("merged.id")
    ).whenNotMatched().insertAll().merge()
    assert ids(spark.table("merged")) == [0, 1, 2, 3, 4]


def test_functions_and_views_belong_to_a_session(server, spark, folder):
    """Two clients give the same names to different views and functions, and use them in queries and statements."""
    other = server.client()
    for session, number in ((spark, 1), (other, 2)):
        session.range(number, number + 3).write.format("delta").save(f"{folder}/t{number}")
        session.read.format("delta").load(f"{folder}/t{number}").createOrReplaceTempView("same")
        session.udf.register("scaled", lambda value, by=number: value * by, "long")
    for session, number, scaled, updated in ((spark, 1, [1, 2, 3], [1, 2, 103]), (other, 2, [4, 6, 8], [2, 106, 108])):
        assert ids(session.sql("SELECT scaled(id) AS id FROM same")) == scaled
        session.sql(f"UPDATE delta.`{folder}/t{number}` SET id = scaled(id) + 100 WHERE scaled(id) > {2 * number}")
        assert ids(session.table("same")) == updated
    other.stop()


def test_a_stream_merges_by_for_each_batch(spark, folder):
    """The function runs on the server, as a client of it."""
    spark.range(3).write.format("delta").save(f"{folder}/in")
    spark.range(2, 4).write.format("delta").save(f"{folder}/out")

    def upsert(batch: Any, _: int) -> None:
        table = tahoe.DeltaTable.forPath(batch.sparkSession, f"{folder}/out")
        table.merge(batch, table.toDF().id == batch.id).whenMatchedUpdate(
            set={"id": batch.id + 10}
        ).whenNotMatchedInsertAll().execute()

    query = spark.readStream.format("delta").load(f"{folder}/in").writeStream.foreachBatch(upsert)
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination(
        PATIENCE_SECONDS
    )
    assert ids(spark.read.format("delta").load(f"{folder}/out")) == [0, 1, 3, 12]


@pytest.mark.every_spark
def test_the_clause_of_changes(spark, folder):
    if spark.version.startswith("4.1"):
        pytest.skip("CHANGES is new in Spark 4.2")
    path = f"{folder}/t"
    spark.range(3).write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    expected = [("insert", 0, 0), ("insert", 1, 0), ("insert", 2, 0), ("delete", 1, 1)]
    columns = ["_change_type", "id", "_commit_version"]
    asked = spark.sql(f"SELECT * FROM delta.`{path}` CHANGES FROM VERSION 0"), spark.read.changes(f"delta.`{path}`")
    for rows in asked:
        assert list(map(tuple, rows.select(*columns).orderBy("_commit_version", "id").collect())) == expected


@pytest.mark.every_spark
def test_delta_table_changes_rows(client, spark):
    """Conditions and values as text, as columns, and as columns of the table's own DataFrame."""
    spark.range(10).selectExpr("id", "cast(id AS STRING) AS v").write.format("delta").saveAsTable(
        f"rows_{client.__name__[:4]}"
    )
    table = client.DeltaTable.forName(spark, f"rows_{client.__name__[:4]}")
    own, source = table.toDF(), spark.createDataFrame([(1, "m"), (77, "new")], "id LONG, v STRING")
    assert table.delete("id = 3").collect() == [Row(num_affected_rows=1)]
    assert table.alias("x").delete(F.col("x.id").isin(4)).collect() == [Row(num_affected_rows=1)]
    assert table.delete(own.id == 5).collect() == [Row(num_affected_rows=1)]
    assert table.update("id = 0", {"v": "concat(v, '!')"}).collect() == [Row(num_affected_rows=1)]
    assert table.update(own.id == 2, {"v": F.concat(own.v, F.lit("?"))}).collect() == [Row(num_affected_rows=1)]
    merge = table.merge(source, own.id == source.id).whenMatchedUpdate(own.id > 0, {"v": source.v})
    merge = merge.whenNotMatchedInsert(values={"id": source.id, "v": source.v}).whenNotMatchedBySourceDelete(
        own.id == 9
    )
    assert tuple(merge.execute().collect()[0]) == (3, 1, 1, 1)
    found = sorted(map(tuple, table.toDF().collect()))
    assert found == [(0, "0!"), (1, "m"), (2, "2?"), (6, "6"), (7, "7"), (8, "8"), (77, "new")]
    more = spark.createDataFrame([(1, "w", 5)], "id LONG, v STRING, added INT").alias("s")
    table.alias("t").merge(
        more, "t.id = s.id"
    ).withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert client.DeltaTable.forName(spark, f"rows_{client.__name__[:4]}").toDF().columns == ["id", "v", "added"]


def test_delta_table_looks_after_a_table(client, spark, folder):
    Table, name = client.DeltaTable, f"kept_{client.__name__[:4]}"  # noqa: N806
    path = f"{folder}/t"
    spark.range(8).selectExpr("id", "id % 2 AS p").write.format("delta").partitionBy("p").save(path)
    table = Table.forPath(spark, path)
    assert (Table.isDeltaTable(spark, path), Table.isDeltaTable(spark, folder)) == (True, False)
    assert table.delete(table.toDF().id == 1).head().num_affected_rows == 1
    assert [row.version for row in table.history(1).collect()] == [1]
    assert table.detail().head().partitionColumns == ["p"]
    assert table.optimize().where("p = 0").executeCompaction().head().metrics.numFilesAdded == 1
    assert table.optimize().executeZOrderBy("id").count() == 1
    table.vacuum(1000.0)
    assert table.restoreToVersion(0).head().num_of_files_after_restore > 0
    assert table.clone(f"{name}_clone", isShallow=True).toDF().count() == 8
    assert table.cloneAtVersion(1, f"{name}_older", properties={"a": "b"}, isShallow=True).toDF().count() == 7
    table.generate("symlink_format_manifest")
    assert (Path(path) / "_symlink_format_manifest").is_dir()
    table.addFeatureSupport("deletionVectors")
    table.dropFeatureSupport("deletionVectors")
    table.upgradeTableProtocol(3, 7)
    assert table.detail().head().minReaderVersion == 3
    spark.range(3).write.parquet(f"{folder}/parquet")
    assert Table.convertToDelta(spark, f"parquet.`{folder}/parquet`").toDF().count() == 3


def test_delta_table_makes_tables(client, spark, folder):
    name, builder = f"made_{client.__name__[:4]}", client.DeltaTable.create(spark)
    builder = builder.tableName(name).addColumn("id", LongType(), generatedByDefaultAs=client.IdentityGenerator(5, 2))
    builder = builder.addColumn("d", DateType(), nullable=False, comment="a day").addColumn(
        "y", "int", generatedAlwaysAs="year(d)"
    )
    made = builder.partitionedBy("y").property("delta.appendOnly", "false").comment("made afar").execute()
    spark.sql(f"INSERT INTO {name} (d) VALUES (DATE'2026-01-01')")
    assert [tuple(row)[::2] for row in made.toDF().collect()] == [(5, 2026)]
    assert made.detail().head().description == "made afar"
    clustered = (
        client.DeltaTable.createOrReplace(spark)
        .location(f"{folder}/c")
        .addColumns(StructType([StructField("a", IntegerType())]))
    )
    assert clustered.clusterBy("a").execute().detail().head().clusteringColumns == ["a"]


def test_only_ours_has_more(spark, folder):
    """What the reference's messages cannot say: REORG, the paths of VACUUM, SYNC IDENTITY, arguments that are wrong."""
    assert tahoe.enable(spark) is spark
    spark.sql(
        f"CREATE TABLE delta.`{folder}/t` (id BIGINT GENERATED BY DEFAULT AS IDENTITY, p INT) USING delta "
        f"PARTITIONED BY (p)"
    )
    spark.sql(f"INSERT INTO delta.`{folder}/t` VALUES (7, 1), (8, 2)")
    table = tahoe.DeltaTable.forPath(spark, f"{folder}/t")
    assert isinstance(table, tahoe.DeltaTable)
    assert table.reorg(F.col("p") == 1).head().numFilesRemoved == 0
    assert table.vacuum(dry_run=True).collect() == []
    table.syncIdentity("id")
    spark.sql(f"INSERT INTO delta.`{folder}/t` (p) VALUES (3)")
    assert ids(table.toDF()) == [7, 8, 9]
    spark.sql(f"ALTER TABLE delta.`{folder}/t` ADD CONSTRAINT pk PRIMARY KEY (id) RELY")
    spark.sql(f"ALTER TABLE delta.`{folder}/t` ADD CONSTRAINT one UNIQUE (p)")
    spark.sql(f"INSERT INTO delta.`{folder}/t` VALUES (7, 4)")
    checked = table.checkKeys().select("name", "violations", "examples").collect()
    assert checked == [Row(name="pk", violations=1, examples=["id = 7"]), Row(name="one", violations=0, examples=[])]
    assert ("pk", "PRIMARY KEY (id)") in [
        (row.col_name, row.data_type[:16]) for row in spark.sql(f"DESCRIBE EXTENDED delta.`{folder}/t`").collect()
    ]
    with pytest.raises(ValueError, match="'set' cannot be None"):
        table.update("id = 1", None)
    with pytest.raises(TypeError, match="'condition' must be"):
        table.delete(3)


def test_vacuum_tells_the_client_what_tags_hold(spark, folder, caplog):
    spark.range(3).write.format("delta").option("delta.deletedFileRetentionDuration", "interval 0 hours").save(folder)
    spark.sql(f"ALTER TABLE delta.`{folder}` CREATE TAG first")
    spark.range(3).write.format("delta").mode("overwrite").save(folder)
    assert tahoe.DeltaTable.forPath(spark, folder).vacuum().columns == ["path"]
    assert "because tags hold them: first of version 0" in caplog.text


def test_every_method_of_delta_table_is_there_for_clients():
    """A method that is not overridden would look for a JVM."""
    public = {name for kind in tahoe.DeltaTable.__mro__[:-1] for name in vars(kind) if not name.startswith("_")}
    assert public <= set(vars(RemoteDeltaTable))


@pytest.mark.every_spark
@pytest.mark.parametrize(
    ("kind", "condition", "state", "parameter", "action"),
    [
        (
            AnalysisException,
            "DELTA_TABLE_NOT_FOUND",
            "42P01",
            "table",
            lambda s, d: s.read.format("delta").load(f"{d}/none").count(),
        ),
        (
            AnalysisException,
            "DELTA_VERSION_NOT_FOUND",
            "22003",
            "version",
            lambda s, d: s.sql(f"SELECT * FROM delta.`{d}/t@v99`").count(),
        ),
        (ParseException, "PARSE_SYNTAX_ERROR", "42601", None, lambda s, d: s.sql("OPTIMIZE t WHRE x").collect()),
        (
            IllegalArgumentException,
            "DELTA_MODE_NOT_SUPPORTED",
            None,
            None,
            lambda s, d: tahoe.DeltaTable.forPath(s, f"{d}/t").generate("x"),
        ),
        (
            SparkException,
            "CAST_INVALID_INPUT",
            "22018",
            "value",
            lambda s, d: s.sql(f"INSERT INTO delta.`{d}/t` VALUES ('a')").collect(),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isupper() else "",
)
def test_errors_cross_with_class_condition_and_parameters(spark, folder, kind, condition, state, parameter, action):
    spark.range(1).write.format("delta").save(f"{folder}/t")
    with pytest.raises(kind) as caught:
        action(spark, folder)
    assert caught.value.getCondition() == condition
    assert state in (None, caught.value.getSqlState())
    assert parameter is None or parameter in caught.value.getMessageParameters()


def test_every_error_has_a_class_that_clients_know():
    """A class that is missing would cost the client the error. The reference's client knows conflicts by the names of
    its own classes.
    """
    sources = ROOT / "src/tahoe/spark/java_connect"
    for name in tahoe.errors.__all__:
        found = class_for_clients(getattr(tahoe.errors, name))
        assert (sources / (found.replace(".", "/") + ".java")).exists(), name
    assert class_for_clients(tahoe.errors.ConcurrentAppendException) == "io.delta.exceptions.ConcurrentAppendException"
    assert (
        class_for_clients(tahoe.errors.WriteAlreadyRecordedError)
        == "io.delta.exceptions.ConcurrentTransactionException"
    )


@pytest.mark.every_spark
def test_a_conflict_has_the_class_that_the_client_knows(server, client, spark, folder):
    """An UPDATE whose rows another client deletes meanwhile; programs catch the conflict by its class to try again."""
    spark.range(3).coalesce(1).write.format("delta").save(f"{folder}/t")
    gate = Gate(Path(folder))
    wait = gate.waiting()

    def slowly(value: int) -> int:
        wait()
        return value + 1

    spark.conf.set("spark.tahoe.conflictRetries", "0")
    table = client.DeltaTable.forPath(spark, f"{folder}/t")
    update = Running(gate, lambda: table.update("id = 1", {"id": F.udf(slowly, "long")("id")}))
    other = server.client()
    other.sql(f"DELETE FROM delta.`{folder}/t` WHERE id = 1")
    other.stop()
    gate.open()
    until(update.has_ended)
    exceptions = import_module(client.__name__.replace("tables", "exceptions"))
    assert isinstance(update.error, exceptions.ConcurrentDeleteDeleteException), update.error
    assert update.error.getCondition() == "DELTA_CONCURRENT_DELETE_DELETE"
    assert update.error.getSqlState() == "2D521"
    assert "DELETE" in update.error.getMessageParameters()["winner"]


def threads_and_files(process: int) -> tuple[int, int]:
    return len(os.listdir(f"/proc/{process}/task")), len(os.listdir(f"/proc/{process}/fd"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads and files in /proc")
def test_many_sessions_leave_nothing_behind(server, folder):
    """Thirty clients, some of which go away without a word, and a query that is cancelled."""
    first = server.client()
    first.range(100).write.format("delta").save(f"{folder}/t")

    def work(session: SparkSession, number: int) -> None:
        for turn in range(8):
            session.sql(f"SELECT count(*) FROM delta.`{folder}/t` WHERE id > {turn}").collect()
        session.range(1).write.format("delta").mode("append").save(f"{folder}/n{number}")

    def crowd() -> None:
        sessions = [server.client() for _ in range(10)]
        threads = [
            threading.Thread(target=work, args=(session, number), daemon=True)
            for number, session in enumerate(sessions)
        ]
        for thread in threads:
            thread.start()
        until(lambda: not any(thread.is_alive() for thread in threads))
        for session in sessions:
            session.stop()

    def is_as_before() -> bool:
        threads, files = threads_and_files(server.process.pid)
        return threads <= before[0] + 4 and files <= before[1] + 8

    crowd()
    before = threads_and_files(server.process.pid)
    for _ in range(2):
        crowd()
    gate = Gate(Path(folder))
    slow = Running(gate, gate.rows(first).collect)
    first.interruptAll()
    until(slow.has_ended)
    assert "CANCELED" in str(slow.error)
    first.stop()
    until(is_as_before)


TLS_CLIENT = """
import sys
from pyspark.sql import SparkSession
url, table = sys.argv[1:]
spark = SparkSession.builder.remote(url).create()
spark.range(5).write.format("delta").save(table)
print(spark.sql(f"DELETE FROM delta.`{table}` WHERE id < 2").head().num_affected_rows)
spark.stop()
"""


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """The text of a page with what is different here."""
    for old, new in pairs:
        assert old in text, f"docs/connect.md has no {old} any more"
        text = text.replace(old, new)
    return text


@pytest.fixture
def tls(server, tmp_path) -> Iterator[int]:
    """The port of a proxy as docs/connect.md describes it, with a certificate for 127.0.0.1 as it describes that."""
    if missing := [name for name in ("haproxy", "openssl") if shutil.which(name) is None]:
        pytest.skip(f"NOT TESTED: a proxy for TLS, because there is no {' and no '.join(missing)} here")
    page = (ROOT / "docs/connect.md").read_text()
    (certificate,) = [line for line in page.splitlines() if line.startswith("openssl req")]
    certificate = replaced(certificate, ("CN=data.example.org", "CN=here"), ("DNS:data.example.org", "IP:127.0.0.1"))
    subprocess.run(shlex.split(certificate), cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    (tmp_path / "both.pem").write_text((tmp_path / "cert.pem").read_text() + (tmp_path / "key.pem").read_text())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        given = ("bind :443", f"bind fd@{listening.fileno()}"), ("127.0.0.1:15002", f"127.0.0.1:{server.port}")
        recipe = replaced(
            page.split("## TLS")[1].split("```text\n")[1].split("```")[0],
            *given,
            ("/etc/haproxy/data.example.org.pem", f"{tmp_path}/both.pem"),
        )
        (tmp_path / "haproxy.cfg").write_text(recipe)
        with subprocess.Popen(
            ["haproxy", "-db", "-f", "haproxy.cfg"], cwd=tmp_path, pass_fds=[listening.fileno()]
        ) as proxy:
            yield listening.getsockname()[1]
            proxy.kill()


def test_a_client_by_tls(tls, folder):
    """A client that has a token uses TLS, because the host is not literally localhost."""
    trusting = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": f"{folder}/cert.pem"}
    words = [sys.executable, "-c", TLS_CLIENT, f"sc://127.0.0.1:{tls}/;token={TOKEN}", f"{folder}/t"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=trusting, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"


def test_a_module_of_the_client_is_there_for_its_functions(server, folder):
    """The client is not stopped: jobs of other sessions would fail then, by the defect of Spark that docs/connect.md
    describes.
    """
    module = Path(folder) / "parity.py"
    module.write_text("def is_even(number):\n    return number % 2 == 0\n")
    session = server.client()
    session.addArtifacts(str(module), pyfile=True)

    def is_even(number: int) -> bool:
        import parity  # noqa: PLC0415 - the artifact

        return bool(parity.is_even(number))

    session.udf.register("is_even", is_even, "boolean")
    session.range(5).write.format("delta").save(f"{folder}/t")
    session.sql(f"DELETE FROM delta.`{folder}/t` WHERE is_even(id)")
    assert ids(session.read.format("delta").load(f"{folder}/t")) == [1, 3]


@pytest.mark.every_spark
def test_the_server_shuts_down_when_its_queries_are_done(server, folder):
    """The last test of the file: a running query finishes, new work is refused, and the work after commits is done."""
    session, other = server.client(), server.client()
    session.range(1).write.format("delta").save(f"{folder}/t")
    gate = Gate(Path(folder))
    slow = Running(gate, lambda: ids(gate.rows(session)))
    server.process.send_signal(signal.SIGTERM)
    until(lambda: "shutting down and accepts no new work" in refusal(other))
    assert not slow.has_ended()
    gate.open()
    until(slow.has_ended)
    assert (slow.result, slow.error) == ([0, 1, 2], None)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert (Path(folder) / "t/_delta_log/00000000000000000000.crc").exists()


def refusal(session: SparkSession) -> str:
    """Why a query is refused, if it is."""
    try:
        session.range(1).collect()
    except PySparkException as error:
        return str(error)
    return ""
