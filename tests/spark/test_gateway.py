"""Values and classes between Python and the JVM."""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException

from tahoe.spark.api.session import JAVA_SOURCES
from tahoe.spark.jvm.gateway import Gateway

pytestmark = pytest.mark.every_spark


@pytest.fixture(scope="module")
def gateway(spark) -> Gateway:
    return Gateway(spark)


def test_collections_and_back(gateway):
    assert list(gateway.items(gateway.seq(["a", "b"]).iterator())) == ["a", "b"]
    assert list(gateway.items(gateway.list([1, 2]).iterator())) == [1, 2]
    assert gateway.dict(gateway.scala_map({"a": "b", "c": "d"})) == {"a": "b", "c": "d"}
    assert gateway.texts(gateway.java_map({"ä": "\n'\""})) == {"ä": "\n'\""}
    assert list(gateway.array(gateway.jvm.java.lang.String, ["x"])) == ["x"]
    assert gateway.option(None).isEmpty()
    assert gateway.option("x").get() == "x"


def test_schemas_and_back(spark, gateway):
    frame = spark.sql(
        "select 1 as a, named_struct('b', array(map('k', 1.5))) as s, parse_json('1') as v, "
        "timestamp_ntz'2020-01-01' as n"
    )
    assert gateway.schema(gateway.struct(frame.schema)) == frame.schema


def test_case_classes_are_built_and_changed_by_name(gateway):
    # their fields differ between Spark's versions
    format_ = gateway.module("org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat").empty()
    changed = gateway.changed(format_, compressed=True)
    assert changed.compressed()
    assert not format_.compressed()
    assert changed.properties().equals(format_.properties())
    with pytest.raises(IllegalArgumentException, match="nosuch"):
        gateway.changed(format_, nosuch=1)
    statistic = gateway.build("org.apache.spark.sql.catalyst.catalog.CatalogColumnStat")
    assert statistic.distinctCount().isEmpty()


def test_a_plan_becomes_a_dataframe(spark, gateway):
    plan = spark.range(3)._jdf.queryExecution().analyzed()
    assert gateway.dataframe_of_plan(plan).count() == 3


def test_the_gateway_of_a_session_is_that_sessions(spark, gateway):
    assert Gateway.of(gateway.session).spark is spark
    other = spark.newSession()
    assert Gateway.of(other._jsparkSession).session.equals(other._jsparkSession)
    assert Gateway.active().session.equals(gateway.session)


def test_classes_are_compiled_once(gateway, tmp_path):
    (tmp_path / "Broken.java").write_text("this is no Java")
    gateway.compile(tmp_path)  # the source's classes are there, so that nothing is compiled


def test_a_loader_that_prefers_the_users_classes_takes_folders_too(gateway):
    # spark.driver.userClassPathFirst=true: its class is below the one that Spark has otherwise
    thread = gateway.jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    loader = gateway.java_class("org.apache.spark.util.ChildFirstURLClassLoader")(
        gateway.array(gateway.jvm.java.net.URL, []), before
    )
    thread.setContextClassLoader(loader)
    try:
        assert gateway.loader.equals(loader)
    finally:
        thread.setContextClassLoader(before)


@pytest.mark.every_case
@pytest.mark.parametrize(
    "caller",
    ["catalyst.analysis.RelationResolution", "execution.datasources.v2.CreateTableExec", "classic.DataStreamWriter"],
)
def test_callers_that_our_catalog_looks_for_on_the_stack_are_classes_of_this_spark(gateway, caller):
    """Else a query by name would get what a statement gets, and a stream into a new table might be refused."""
    assert gateway.has_class(f"org.apache.spark.sql.{caller}")
    assert f'isCalledBy(".{caller.rpartition(".")[2]}")' in (JAVA_SOURCES / "delta" / "SessionCatalog.java").read_text()
