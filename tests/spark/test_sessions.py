"""Sessions: enabling one, those made from it, threads, and what cannot be enabled."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from py4j.clientserver import ClientServerConnection, JavaClient
from py4j.java_gateway import GatewayClient
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import tahoe
from tahoe.errors import (
    NoGatewayError,
    ReferenceJarPresentError,
    SessionNotEnabledError,
    TableNotFoundError,
    UnsupportedSparkVersionError,
)
from tahoe.spark.api.session import STATEMENTS_OF_RULES
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.reading import planning
from tests import sample
from tests.spark.foreign import mark

pytestmark = pytest.mark.every_spark


def append(path, *ids):
    tahoe.Table(path).append(pa.table({"id": pa.array(ids, pa.int64())}))


@pytest.fixture
def marked(path) -> str:
    """A table with two living rows and one that a vector marks."""
    append(path, 1, 2, 3)
    mark(path, {0: [0]})
    return path


# --- enabling


@pytest.mark.usefixtures("spark")
def test_a_configured_builder_makes_enabled_sessions(marked):
    builder = SparkSession.builder.config("my.setting", "1")
    assert tahoe.configure(builder, ["org.example:a:1", "org.example:b:2"]) is builder
    assert builder._options.pop("spark.jars.packages") == "org.example:a:1,org.example:b:2"
    session = builder.getOrCreate()
    assert session.conf.get("my.setting") == "1"
    assert session.sql(f"DESCRIBE HISTORY delta.`{marked}`").count() > 0
    session.conf.unset("my.setting")


def test_only_builders_are_configured(spark):
    with pytest.raises(TypeError, match="must be called with a SparkSession builder"):
        tahoe.configure(spark)


def test_a_session_whose_parser_stays_says_how_to_run_statements(spark, monkeypatch):
    asked = Gateway.java_class

    def refused(*_):
        raise Py4JError("no such field")

    class Fixed:
        installed = staticmethod(lambda session: False)
        install = staticmethod(refused)

    monkeypatch.setattr(
        Gateway, "java_class", lambda self, name: Fixed if name == "delta.Parser" else asked(self, name)
    )
    with pytest.warns(UserWarning, match=r"tahoe\.sql"):
        tahoe.enable(spark)


def test_the_users_own_parser_stays_beneath(spark):
    injected = getattr(spark._jvm.delta, "Parser$Injected")()
    own = spark._jvm.org.apache.spark.sql.execution.SparkSqlParser()
    ours = injected.apply(spark._jsparkSession, own)
    assert ours.hashCode() == own.hashCode()  # what is not about plans goes beneath
    identity = spark._jvm.java.lang.System.identityHashCode
    assert identity(injected.apply(spark._jsparkSession, ours)) == identity(ours)


def test_enabling_again_changes_nothing(spark):
    rules = spark._jsparkSession.experimental().extraOptimizations().size()
    assert tahoe.enable(spark) is spark
    assert spark._jsparkSession.experimental().extraOptimizations().size() == rules


def test_the_users_own_rules_stay(spark, marked):
    experimental = spark._jsparkSession.experimental()
    before = experimental.extraOptimizations()
    own = spark._jvm.delta.__getattr__("Rules$Nothing")()
    getattr(experimental, "extraOptimizations_$eq")(spark._jvm.PythonUtils.toSeq([own]))
    try:
        tahoe.enable(spark)
        assert spark.read.format("delta").load(marked).count() == 2
        assert own.equals(experimental.extraOptimizations().apply(0))
    finally:
        getattr(experimental, "extraOptimizations_$eq")(before)


def test_a_field_is_found_in_whichever_class_has_it(spark):
    analyzer = spark._jsparkSession.sessionState().analyzer()
    fields = Gateway(spark).java_class("delta.Fields")
    own = analyzer.getClass().getName()
    assert (
        fields.of(analyzer, "extendedResolutionRules").getDeclaringClass().getName() == own
    )  # the one above is not read
    assert fields.of(analyzer, "catalogManager").getDeclaringClass().getName() != own
    with pytest.raises(Exception, match=r"NoSuchFieldException: .*\.nosuch"):
        fields.of(analyzer, "nosuch")


def test_an_analyser_that_takes_no_rules_is_told(spark, monkeypatch):
    asked = Gateway.java_class

    class Closed:
        install = staticmethod(lambda session: "hintResolutionRules\0postHocResolutionRules")

    monkeypatch.setattr(
        Gateway, "java_class", lambda self, name: Closed if name == "delta.Rules" else asked(self, name)
    )
    with pytest.warns(UserWarning, match="analyser") as said:
        tahoe.enable(spark)
    assert ["ADD CONSTRAINT" in str(warning.message) for warning in said] == [True, False]
    assert ["DELETE" in str(warning.message) for warning in said] == [False, True]


def without_rules(session) -> SparkSession:
    """The session, with an analyser of which we have none of the rules."""
    analyzer = session._jsparkSession.sessionState().analyzer()
    gateway = Gateway(session)
    for name in STATEMENTS_OF_RULES:
        field = gateway.java_class("delta.Fields").of(analyzer, name)
        kept = [
            rule
            for rule in gateway.items(field.get(analyzer).iterator())
            if not rule.getClass().getName().startswith("delta.")
        ]
        field.set(analyzer, gateway.seq(kept))
    return session


def test_rules_that_a_new_session_was_made_without_are_there_at_its_first_statement(spark, marked):
    # Spark 4.1.0 and 4.2.0 make the analyser of a session with a Hive metastore without the extensions' first rules
    new = without_rules(spark.newSession())
    new.sql(f"ALTER TABLE delta.`{marked}` ADD CONSTRAINT positive CHECK (id > 0)")
    assert new.sql(f"DELETE FROM delta.`{marked}` WHERE id = 2").collect() == [Row(1)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {table} WHERE id = 2",
        "UPDATE {table} SET id = 5 WHERE id = 2",
        "MERGE INTO {table} t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO {table} t USING (SELECT 9L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO {table} t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        "ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id > 0)",
        "ALTER TABLE {table} ALTER COLUMN id SET NOT NULL",
    ],
)
def test_what_has_no_rule_is_refused(spark, marked, statement):
    new = spark.newSession()
    new.sql("SELECT 1")
    without_rules(new)
    version = tahoe.Table(marked).version
    with pytest.raises(PySparkException):
        new.sql(statement.format(table=f"delta.`{marked}`")).collect()
    assert tahoe.Table(marked).version == version


def test_another_session_catalog_is_left_in_place(spark, monkeypatch):
    settings = {"spark.sql.catalog.spark_catalog": "org.example.Catalog"}
    monkeypatch.setattr(type(spark.conf), "get", lambda self, name, default=None: settings.get(name, default))
    monkeypatch.setattr(type(spark.conf), "set", lambda self, name, value: settings.__setitem__(name, value))
    with pytest.warns(UserWarning, match=r"org\.example\.Catalog"):
        tahoe.enable(spark)
    assert settings["spark.sql.catalog.spark_catalog"] == "org.example.Catalog"


# --- sessions made from an enabled one


def test_a_new_session(spark, marked):
    # its rows would come back if it had the source and not the rule
    new = spark.newSession()
    assert new.read.format("delta").load(marked).count() == 2
    assert new.sql(f"SELECT count(*) FROM delta.`{marked}`").collect() == [Row(2)]
    with pytest.raises(TableNotFoundError):
        new.read.format("delta").load(marked + "x")


def test_a_new_session_finds_names_at_versions(spark, marked, table_name):
    spark.sql(f"CREATE TABLE {table_name} USING delta LOCATION '{marked}'")
    new = spark.newSession()
    assert new.table(table_name).count() == 2
    assert new.sql(f"SELECT count(*) FROM {table_name} VERSION AS OF 0").collect() == [Row(3)]


def test_a_cloned_session(spark, marked):
    # as foreachBatch gives one to its function
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    assert clone.read.format("delta").load(marked).count() == 2
    assert clone.sql(f"SELECT count(*) FROM delta.`{marked}` VERSION AS OF 0").collect() == [Row(3)]


def test_threads_that_read_and_write(spark, marked, tmp_path):
    own = str(tmp_path / "own")
    append(own, 0)

    steps = 20 // sample.step(2)

    def work(thread):
        found = []
        for step in range(steps):
            if step % 5 == 4:
                spark.createDataFrame([(thread * 100 + step,)], "id long").write.format("delta").mode("append").save(
                    own
                )
            elif step % 2:
                found.append(spark.sql(f"SELECT id FROM delta.`{marked}` WHERE id > 2").count())
            else:
                found.append(spark.read.format("delta").load(marked).count())
        return found

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(8)))
    assert found == [[1 if step % 2 else 2 for step in range(steps) if step % 5 != 4]] * 8
    assert spark.read.format("delta").load(own).count() == 1 + 8 * steps // 5
    assert tahoe.Table(own).version == 8 * steps // 5


@pytest.mark.usefixtures("spark")
def test_pandas_on_spark(marked):
    pd = pytest.importorskip("pyspark.pandas", exc_type=ImportError)
    assert sorted(pd.read_delta(marked)["id"].tolist()) == [2, 3]
    assert len(pd.read_delta(marked, version="0")) == 3


# --- errors


def test_an_error_of_ours_is_the_one_that_was_raised(spark, marked, monkeypatch):
    error = TableNotFoundError(table="somewhere")
    error.__cause__ = KeyError("why")

    def fail(*_):
        raise error

    monkeypatch.setattr(planning, "plan_scan", fail)
    with pytest.raises(TableNotFoundError) as caught:
        spark.read.format("delta").load(marked).collect()
    assert caught.value.next_step == error.next_step
    assert caught.value.__notes__ == ["Caused by KeyError: 'why'"]


def test_an_error_in_our_code_shows_where_it_was(spark, marked, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(planning, "plan_scan", fail)
    with pytest.raises(ZeroDivisionError) as caught:
        spark.read.format("delta").load(marked).collect()
    assert any(entry.name == "fail" for entry in caught.traceback)


def test_an_error_of_spark_inside_a_callback_stays_sparks(spark, marked, monkeypatch):
    monkeypatch.setattr(planning, "plan_scan", lambda gateway, *_: gateway.spark.sql("SELECT nosuch"))
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        spark.read.format("delta").load(marked).collect()


def test_the_jvm_gets_what_a_callback_returns_however_soon_python_drops_it(spark, monkeypatch, tmp_path):
    """Here Python drops it, and tells the JVM so, before the JVM reads the result."""
    path, call = str(tmp_path / "t"), ClientServerConnection._call_proxy

    def call_and_drop(self, name, given):
        result = call(self, name, given)
        gc.collect()
        return result

    def drop_at_once(self, name, enqueue=True):  # noqa: ARG001  py4j passes it
        GatewayClient.garbage_collect_object(self, name)

    monkeypatch.setattr(ClientServerConnection, "_call_proxy", call_and_drop)
    monkeypatch.setattr(JavaClient, "garbage_collect_object", drop_at_once)
    spark.range(3).write.format("delta").save(path)
    assert spark.read.format("delta").load(path).where("id > 0").count() == 2
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    assert spark.sql(f"SELECT sum(id) AS n FROM delta.`{path}`").head().n == 2
    with pytest.raises(tahoe.errors.SchemaMismatchError):
        spark.range(1).toDF("other").write.format("delta").mode("append").save(path)


def test_sql_handlers_know_our_errors(spark, tmp_path):
    script = f"""
        BEGIN
          DECLARE answer STRING DEFAULT 'none';
          DECLARE EXIT HANDLER FOR SQLSTATE '42P01' BEGIN SELECT 'handled' AS answer; END;
          SELECT * FROM delta.`{tmp_path}/nothing`;
        END"""
    spark.conf.set("spark.sql.scripting.enabled", "true")
    try:
        assert spark.sql(script).collect() == [Row(answer="handled")]
    finally:
        spark.conf.unset("spark.sql.scripting.enabled")


# --- what cannot be enabled


def test_a_session_without_a_gateway_is_refused():
    class Remote:
        pass

    with pytest.raises(NoGatewayError):
        tahoe.enable(Remote())


def test_a_session_that_was_stopped_is_refused(spark, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)  # as stop() leaves it
    with pytest.raises(NoGatewayError, match="the session was stopped"):
        tahoe.enable(spark)


def test_a_session_that_was_not_enabled_says_so(spark, monkeypatch):
    """Else py4j says that a class does not exist in the JVM."""
    monkeypatch.setattr(Gateway, "has_class", lambda self, name: False)
    for call in (
        lambda: tahoe.DeltaTable.forPath(spark, "/t"),
        lambda: tahoe.DeltaTable.forName(spark, "t"),
        lambda: tahoe.DeltaTable.convertToDelta(spark, "parquet.`/t`"),
        lambda: tahoe.DeltaTable.create(spark),
        lambda: tahoe.sql(spark, "DESCRIBE HISTORY t"),
    ):
        with pytest.raises(SessionNotEnabledError, match=r"Call tahoe\.enable\(spark\)"):
            call()


def test_another_version_of_spark_is_refused(spark, monkeypatch):
    monkeypatch.setattr(SparkSession, "version", property(lambda self: "3.5.1"))
    with pytest.raises(UnsupportedSparkVersionError, match=r"3\.5\.1"):
        tahoe.enable(spark)


def test_the_references_jar_is_refused(spark, monkeypatch):
    monkeypatch.setattr(Gateway, "has_class", lambda self, name: True)
    load = Gateway.load_class
    stand_in = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
    monkeypatch.setattr(
        Gateway, "load_class", lambda self, name: load(self, stand_in if "DeltaDataSource" in name else name)
    )
    for refuses in (lambda: tahoe.enable(spark), tahoe.install_as_delta):
        with pytest.raises(ReferenceJarPresentError, match=r"spark-sql_2\.13"):
            refuses()
