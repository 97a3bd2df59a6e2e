"""Views of attached catalogs, in every statement. Spark 4.1 has none, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tahoe
from tahoe.catalog import View
from tahoe.storage.background import finish_background
from tahoe.tables import DeltaTable
from tests.catalog.commands import fine, serving
from tests.spark.attached import rows

pytestmark = pytest.mark.every_spark

HAS_VIEWS = not pyspark.__version__.startswith("4.1.")
needs_views = pytest.mark.skipif(not HAS_VIEWS, reason="Spark 4.1 has no views in catalogs of others")


@pytest.fixture
def other(spark: SparkSession, lake_url: str) -> Iterator[SparkSession]:
    """A session in which the catalog has another name."""
    made = spark.newSession()
    tahoe.enable(made, catalogs={"elsewhere": {"url": lake_url}})
    yield made
    made.conf.unset("spark.sql.catalog.elsewhere")


def listed_tables(spark: SparkSession, schema: str) -> dict[str, str]:
    """Spark decodes their namespaces with compiled code alone, which tests do without."""
    before = spark.conf.get("spark.sql.codegen.factoryMode")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    try:
        return {table.name: table.tableType for table in spark.catalog.listTables(schema)}
    finally:
        spark.conf.set("spark.sql.codegen.factoryMode", before)


@needs_views
def test_a_view_has_every_statement(spark: SparkSession, lake: str, lake_url: str) -> None:
    large = f"{lake}.shop.large"
    spark.sql(f"INSERT INTO {lake}.shop.stock VALUES ('cup', 1), ('pot', 20)")
    spark.sql(
        f"CREATE VIEW {large} (thing COMMENT 'what it is', pieces) COMMENT 'large ones' TBLPROPERTIES (a = 'b') "
        f"AS SELECT item, pieces FROM {lake}.shop.stock WHERE pieces > 9"
    )
    assert rows(spark, f"SELECT thing FROM {large} WHERE pieces < 15") == [("tea",)]
    assert spark.table(large).columns == ["thing", "pieces"]
    spark.sql(f"INSERT INTO {lake}.shop.stock VALUES ('urn', 30)")
    assert spark.table(large).count() == 3
    with pytest.raises(AnalysisException, match="already exists"):
        spark.sql(f"CREATE VIEW {large} AS SELECT 1 AS x")
    spark.sql(f"CREATE VIEW IF NOT EXISTS {large} AS SELECT 1 AS x")
    assert spark.table(large).columns == ["thing", "pieces"]
    described = {row.col_name: (row.data_type, row.comment) for row in spark.sql(f"DESCRIBE {large}").collect()}
    assert described["thing"] == ("string", "what it is")
    told = spark.sql(f"SHOW CREATE TABLE {large}").head()[0]
    assert "CREATE VIEW" in told
    assert "large ones" in told
    assert [row.viewName for row in spark.sql(f"SHOW VIEWS IN {lake}.shop").collect()] == ["large"]
    shown = [row.tableName for row in spark.sql(f"SHOW TABLES IN {lake}.shop").collect()]
    assert sorted(shown) == ["large", "orders", "stock"]
    assert listed_tables(spark, f"{lake}.shop") == {"large": "VIEW", "orders": "MANAGED", "stock": "MANAGED"}
    assert spark.catalog.tableExists(large)
    spark.sql(f"ALTER VIEW {large} SET TBLPROPERTIES (c = 'd')")
    assert {"a": "b", "c": "d"}.items() <= tahoe.Catalog(lake_url).view("shop.large").properties.items()
    spark.sql(f"ALTER VIEW {large} UNSET TBLPROPERTIES (c)")
    assert "c" not in tahoe.Catalog(lake_url).view("shop.large").properties
    spark.sql(f"ALTER VIEW {large} AS SELECT count(*) AS n FROM {lake}.shop.stock")
    assert rows(spark, f"SELECT * FROM {large}") == [(4,)]
    spark.sql(f"CREATE OR REPLACE VIEW {large} AS SELECT 7 AS seven")
    assert rows(spark, f"SELECT * FROM {large}") == [(7,)]
    spark.sql(f"ALTER VIEW {large} RENAME TO shop.small")
    assert tahoe.Catalog(lake_url).views() == ["shop.small"]
    spark.sql(f"DROP VIEW {lake}.shop.small")
    spark.sql(f"DROP VIEW IF EXISTS {lake}.shop.small")
    with pytest.raises(AnalysisException, match="cannot be found"):
        spark.sql(f"DROP VIEW {lake}.shop.small")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(large)


@needs_views
def test_names_in_a_view_are_those_of_its_schema(spark: SparkSession, other: SparkSession, lake: str) -> None:
    """Under whatever name another session knows the catalog, and whatever its current schema is."""
    spark.sql(f"USE {lake}.shop")
    spark.sql("CREATE VIEW larger AS SELECT * FROM stock WHERE pieces > 9")
    spark.sql("CREATE VIEW on_view AS SELECT count(*) AS n FROM larger")
    spark.sql("USE spark_catalog.default")
    assert rows(spark, f"SELECT * FROM {lake}.shop.on_view") == [(1,)]
    assert rows(other, "SELECT * FROM elsewhere.shop.on_view") == [(1,)]


@needs_views
def test_a_view_keeps_the_settings_with_which_it_was_made(
    spark: SparkSession, other: SparkSession, lake: str, lake_url: str
) -> None:
    """Not those that say which catalogs the session has: another one has them under other names."""
    kept = {"spark.sql.ansi.enabled": "false", "spark.sql.defaultCatalog": lake}
    for setting, value in kept.items():
        spark.conf.set(setting, value)
    try:
        spark.sql(f"CREATE VIEW {lake}.shop.numbers AS SELECT CAST('tea' AS INT) AS n")
    finally:
        for setting in kept:
            spark.conf.unset(setting)
    known = tahoe.Catalog(lake_url).view("shop.numbers").configurations
    assert (known["spark.sql.ansi.enabled"], [key for key in known if "atalog" in key]) == ("false", [])
    other.conf.set("spark.sql.ansi.enabled", "true")
    assert rows(other, "SELECT * FROM elsewhere.shop.numbers") == [(None,)]


@needs_views
def test_tables_and_views_are_not_taken_for_each_other(spark: SparkSession, lake: str) -> None:
    view, table = f"{lake}.shop.large", f"{lake}.shop.stock"
    spark.sql(f"CREATE VIEW {view} AS SELECT 1 AS one")
    for statement in (
        f"CREATE TABLE {view} (a INT)",
        f"CREATE TABLE {view} AS SELECT 1 AS a",
        f"CREATE OR REPLACE TABLE {view} AS SELECT 1 AS a",
        f"CREATE VIEW {table} AS SELECT 1 AS a",
        f"CREATE OR REPLACE VIEW {table} AS SELECT 1 AS a",
        f"ALTER TABLE {table} RENAME TO shop.large",
        f"ALTER VIEW {view} RENAME TO shop.stock",
        f"DROP TABLE {view}",
        f"DROP VIEW {table}",
        f"INSERT INTO {view} VALUES (1)",
        f"DELETE FROM {view}",
        f"SELECT * FROM {view} VERSION AS OF 1",
        f"CREATE VIEW {view} AS SELECT * FROM {view}",
        f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {view}",
    ):
        with pytest.raises((AnalysisException, tahoe.errors.DeltaError)):
            spark.sql(statement)
    with pytest.raises(tahoe.errors.NameOfAnotherKindError, match="a view"):
        DeltaTable.forName(spark, view)
    assert (rows(spark, f"SELECT * FROM {view}"), spark.table(table).count()) == ([(1,)], 1)


@needs_views
@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        ("INSERT INTO {} VALUES (1)", "INSERT"),
        ("INSERT OVERWRITE {} VALUES (1)", "INSERT, DELETE"),
        ("UPDATE {} SET one = 2", "UPDATE"),
        ("DELETE FROM {} WHERE one = 1", "DELETE"),
        ("MERGE INTO {} AS t USING (SELECT 1 AS one) s ON t.one = s.one WHEN MATCHED THEN DELETE", "DELETE"),
        ("ALTER TABLE {} ADD COLUMN two INT", "ALTER TABLE ... ADD COLUMN"),
        ("ALTER TABLE {} SET TBLPROPERTIES (a = 'b')", "ALTER TABLE ... SET TBLPROPERTIES"),
        ("TRUNCATE TABLE {}", "TRUNCATE TABLE"),
        ("SELECT * FROM {} VERSION AS OF 1", "time travel"),
    ],
)
def test_a_statement_that_needs_a_table_is_told_that_it_is_a_view(
    spark: SparkSession, lake: str, statement: str, operation: str
) -> None:
    """As of a view in the session's catalog. The name is there, so it is not said to be missing."""
    spark.sql(f"CREATE VIEW {lake}.shop.large AS SELECT 1 AS one")
    with pytest.raises(AnalysisException) as raised:
        spark.sql(statement.format(f"{lake}.shop.large"))
    assert raised.value.getCondition().startswith("EXPECT_TABLE_NOT_VIEW.")
    found = raised.value.getMessageParameters()
    assert found == {"operation": operation, "viewName": f"`{lake}`.`shop`.`large`"}


@needs_views
def test_a_view_does_not_follow_its_tables(spark: SparkSession, lake: str) -> None:
    """Spark would look for it in its own catalog when it is read."""
    view, table = f"{lake}.shop.large", f"{lake}.shop.stock"
    for mode in ("EVOLUTION", "TYPE EVOLUTION"):
        with pytest.raises(tahoe.errors.InvalidArgumentError, match="WITH SCHEMA EVOLUTION"):
            spark.sql(f"CREATE VIEW {view} WITH SCHEMA {mode} AS SELECT * FROM {table}")
    spark.sql(f"CREATE VIEW {view} AS SELECT * FROM {table}")
    with pytest.raises(tahoe.errors.InvalidArgumentError):
        spark.sql(f"ALTER VIEW {view} WITH SCHEMA EVOLUTION")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more INT FIRST")
    assert rows(spark, f"SELECT * FROM {view}") == [("tea", 10)]


@needs_views
def test_a_view_has_no_changes(spark: SparkSession, lake: str) -> None:
    spark.sql(f"CREATE VIEW {lake}.shop.large AS SELECT 1 AS one")
    with pytest.raises(tahoe.errors.NameOfAnotherKindError, match="a view"):
        spark.sql(f"SELECT * FROM table_changes('{lake}.shop.large', 0)").collect()


@needs_views
def test_a_block_reads_views_and_makes_none(spark: SparkSession, lake: str, other: SparkSession) -> None:
    """Their tables are those of the block."""
    spark.sql(f"CREATE VIEW {lake}.shop.counted AS SELECT count(*) AS n FROM {lake}.shop.stock")
    with tahoe.transaction(spark):
        other.sql("INSERT INTO elsewhere.shop.stock VALUES ('pot', 1), ('urn', 2)")
        spark.sql(f"INSERT INTO {lake}.shop.orders SELECT 'x', n FROM {lake}.shop.counted")
        for statement in (
            f"CREATE VIEW {lake}.shop.more AS SELECT 1 AS a",
            f"CREATE OR REPLACE VIEW {lake}.shop.counted AS SELECT 1 AS a",
            f"ALTER VIEW {lake}.shop.counted AS SELECT 1 AS a",
            f"ALTER VIEW {lake}.shop.counted RENAME TO shop.more",
            f"DROP VIEW {lake}.shop.counted",
        ):
            with pytest.raises(tahoe.errors.OperationNotAllowedError, match="transaction"):
                spark.sql(statement)
    assert rows(spark, f"SELECT pieces FROM {lake}.shop.orders") == [(1,)]
    assert rows(spark, f"SELECT * FROM {lake}.shop.counted") == [(3,)]


@needs_views
def test_a_view_of_python_is_read(spark: SparkSession, lake: str, lake_url: str) -> None:
    schema = pa.schema([("item", pa.string()), ("pieces", pa.int32())])
    tahoe.Catalog(lake_url).create_view("shop.large", View.of("SELECT * FROM stock WHERE pieces > 9", schema))
    assert rows(spark, f"SELECT * FROM {lake}.shop.large") == [("tea", 10)]


@needs_views
def test_a_server_has_views(spark: SparkSession, lake_url: str, tmp_path: Path) -> None:
    """Who may not see one does not find it; who may see it, and not its tables, reads nothing."""
    owner, guest = (fine("token", lake_url, name).strip() for name in ("ana", "bob"))
    fine("grant", lake_url, "ana", "ADMIN")
    fine("grant", lake_url, "bob", "USE")
    with serving(lake_url, "--root", str(tmp_path / "lake")) as (_, at):
        tahoe.enable(spark, catalogs={n: {"url": at, "token": t} for n, t in (("served", owner), ("guest", guest))})
        spark.sql("CREATE SCHEMA served.shop")
        spark.sql("CREATE TABLE served.shop.stock AS SELECT 'tea' AS item, 10 AS pieces")
        spark.sql("USE served.shop")
        spark.sql("CREATE VIEW large AS SELECT * FROM stock WHERE pieces > 9")
        spark.sql("CREATE OR REPLACE VIEW large AS SELECT item FROM stock WHERE pieces > 9")
        spark.sql("USE spark_catalog.default")
        assert rows(spark, "SELECT * FROM served.shop.large") == [("tea",)]
        assert [row.viewName for row in spark.sql("SHOW VIEWS IN served.shop").collect()] == ["large"]
        assert not spark.catalog.tableExists("guest.shop.large")
        fine("grant", lake_url, "bob", "USE", "shop")
        fine("grant", lake_url, "bob", "SELECT", "shop.large")
        assert spark.catalog.tableExists("guest.shop.large")
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.table("guest.shop.large").count()
        fine("grant", lake_url, "bob", "SELECT", "shop.stock")
        assert rows(spark, "SELECT * FROM guest.shop.large") == [("tea",)]
        spark.sql("DROP VIEW served.shop.large")
        assert not spark.catalog.tableExists("served.shop.large")
        finish_background()
    for name in ("served", "guest"):
        spark.conf.unset(f"spark.sql.catalog.{name}")


@pytest.mark.skipif(HAS_VIEWS, reason="newer versions have views")
def test_spark_41_says_that_it_has_no_views_there(spark: SparkSession, lake: str, lake_url: str) -> None:
    with pytest.raises(AnalysisException, match=f"{lake}.*views"):
        spark.sql(f"CREATE VIEW {lake}.shop.large AS SELECT 1 AS one")
    tahoe.Catalog(lake_url).create_view("shop.large", View.of("SELECT 1 AS one", pa.schema([("one", pa.int32())])))
    with pytest.raises(Exception, match=r"shop\.large is a view.*Spark 4\.2 or newer"):
        spark.table(f"{lake}.shop.large")
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {lake}.shop").collect()] == ["orders", "stock"]
