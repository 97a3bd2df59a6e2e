"""Catalogs that a session has attached: their tables in each statement. Transactions are in `test_transactions`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import (
    CatalogManagedTableError,
    CatalogUrlError,
    TableNameNotFoundError,
)
from tahoe.spark.ddl import table_names
from tahoe.spark.ddl.table_names import ManagedName, TableLocation
from tahoe.spark.jvm import attached_catalogs
from tahoe.storage.background import finish_background
from tahoe.tables import DeltaTable
from tests.catalog.commands import fine, serving
from tests.spark.attached import rows

pytestmark = pytest.mark.every_spark

# Spark 4.1 takes no name of three parts there.
HAS_LIKE = not pyspark.__version__.startswith("4.1.")

# --- names


def test_a_table_that_another_session_drops_at_the_same_time_is_dropped(
    spark: SparkSession, lake: str, lake_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DROP TABLE IF EXISTS does not fail because the table is gone."""

    def dropped_before(*_: object) -> None:
        monkeypatch.undo()
        tahoe.Catalog(lake_url).drop_table("shop.stock")

    monkeypatch.setattr(table_names, "check_outside_of_block", dropped_before)
    spark.sql(f"DROP TABLE IF EXISTS {lake}.shop.stock")
    assert not spark.catalog.tableExists(f"{lake}.shop.stock")


def test_a_table_has_every_statement(spark: SparkSession, lake: str, lake_url: str) -> None:
    orders = f"{lake}.shop.orders"
    for statement in (
        "INSERT INTO {t} VALUES ('tea', 1), ('cup', 2)",
        "UPDATE {t} SET pieces = 5 WHERE item = 'tea'",
        "MERGE INTO {t} t USING (SELECT 'pot' AS item, 3 AS pieces) s ON t.item = s.item WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM {t} WHERE item = 'cup'",
        "ALTER TABLE {t} ADD COLUMN note STRING",
        "ALTER TABLE {t} SET TBLPROPERTIES (a = 'b')",
        "OPTIMIZE {t}",
        "VACUUM {t}",
        "INSERT OVERWRITE {t} SELECT *, 'n' FROM {t} VERSION AS OF 4",
        "RESTORE TABLE {t} TO VERSION AS OF 6",
        "FSCK REPAIR TABLE {t}",
        "COMMENT ON TABLE {t} IS 'all orders'",
    ):
        spark.sql(statement.format(t=orders))
    assert rows(spark, f"SELECT item, pieces, note FROM {orders}") == [("pot", 3, None), ("tea", 5, None)]
    assert rows(spark, f"SELECT count(*) FROM {orders} VERSION AS OF 1") == [(2,)]
    assert spark.sql(f"DESCRIBE HISTORY {orders}").count() == DeltaTable.forName(spark, orders).history().count() > 9
    assert spark.sql(f"DESCRIBE DETAIL {orders}").head().name == orders
    assert f"`{lake}`.`shop`.`orders`" in spark.sql(f"SHOW CREATE TABLE {orders}").head()[0]
    assert tahoe.Catalog(lake_url).table("shop.orders").count() == 2
    with pytest.raises(CatalogManagedTableError):
        tahoe.Table(spark.sql(f"DESCRIBE DETAIL {orders}").head().location).to_arrow()


def test_tables_are_made_in_every_way(spark: SparkSession, lake: str) -> None:
    data = spark.range(3)
    data.write.format("delta").saveAsTable(f"{lake}.shop.saved")
    data.write.format("delta").mode("overwrite").saveAsTable(f"{lake}.shop.saved")
    data.write.format("delta").mode("append").saveAsTable(f"{lake}.shop.saved")
    data.writeTo(f"{lake}.shop.saved").append()
    data.writeTo(f"{lake}.shop.written").using("delta").createOrReplace()
    DeltaTable.create(spark).tableName(f"{lake}.shop.built").addColumn("id", "BIGINT").execute()
    spark.sql(f"CREATE OR REPLACE TABLE {lake}.shop.built AS SELECT 7 AS id")
    if HAS_LIKE:
        spark.sql(f"CREATE TABLE {lake}.shop.liked LIKE {lake}.shop.saved")
    else:
        spark.sql(f"CREATE TABLE {lake}.shop.liked AS SELECT * FROM {lake}.shop.saved LIMIT 0")
    spark.sql(f"CREATE TABLE {lake}.shop.cloned SHALLOW CLONE {lake}.shop.saved")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {lake}.shop.saved (other INT)")
    counts = {
        name: spark.table(f"{lake}.shop.{name}").count() for name in ("saved", "written", "built", "liked", "cloned")
    }
    assert counts == {"saved": 9, "written": 3, "built": 1, "liked": 0, "cloned": 9}
    for name in counts:
        features = spark.sql(f"DESCRIBE DETAIL {lake}.shop.{name}").head().tableFeatures
        assert "catalogManaged" in features, name
    with pytest.raises(AnalysisException, match="already exists"):
        spark.sql(f"CREATE TABLE {lake}.shop.saved (other INT)")


def test_copies_in_other_catalogs_are_not_managed(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    stock = f"{lake}.shop.stock"
    copies = {
        "default.liked_stock": "LIKE" if HAS_LIKE else "USING delta AS SELECT * FROM",
        "default.shallow_stock": "SHALLOW CLONE",
        f"delta.`{tmp_path}/deep`": "DEEP CLONE",
    }
    for copy, how in copies.items():
        spark.sql(f"CREATE TABLE {copy} {how} {stock}")
        spark.sql(f"INSERT INTO {copy} VALUES ('cup', 1)")
        detail = spark.sql(f"DESCRIBE DETAIL {copy}").head()
        assert "catalogManaged" not in detail.tableFeatures, how
        assert not [name for name in detail.properties if "unitycatalog" in name], how
    assert [spark.table(copy).count() for copy in copies] == [1 if HAS_LIKE else 2, 2, 2]
    assert spark.table(stock).count() == 1
    assert "unitycatalog" not in spark.sql(f"SHOW CREATE TABLE {stock}").head()[0]
    for copy in [*copies][:2]:
        spark.sql(f"DROP TABLE {copy}")


def test_a_table_of_another_format_is_refused(spark: SparkSession, lake: str) -> None:
    with pytest.raises(tahoe.errors.UnsupportedOperationError, match="format csv"):
        spark.sql(f"CREATE TABLE {lake}.shop.other (a INT) USING csv")
    with pytest.raises(tahoe.errors.UnsupportedOperationError, match="format json"):
        spark.range(1).write.format("json").saveAsTable(f"{lake}.shop.other")
    assert not spark.catalog.tableExists(f"{lake}.shop.other")
    spark.range(1).write.saveAsTable(f"{lake}.shop.other")
    assert "catalogManaged" in spark.sql(f"DESCRIBE DETAIL {lake}.shop.other").head().tableFeatures


def test_a_maker_that_fails_takes_no_table_of_another_with_it(spark: SparkSession, lake: str, lake_url: str) -> None:
    """Two sessions make a table at once: the rows of the one that has committed stay."""

    def fail() -> None:
        with tahoe.Catalog(lake_url).new_table("shop.made"):
            spark.sql(f"CREATE OR REPLACE TABLE {lake}.shop.made AS SELECT 1 AS a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert rows(spark, f"SELECT * FROM {lake}.shop.made") == [(1,)]


def test_a_table_whose_rows_fail_leaves_no_name(spark: SparkSession, lake: str) -> None:
    for _ in range(2):
        with pytest.raises(ArithmeticException):
            spark.sql(f"CREATE TABLE {lake}.shop.made AS SELECT 1 div id AS a FROM range(2)")
        assert not spark.catalog.tableExists(f"{lake}.shop.made")


def test_a_table_whose_rows_fail_leaves_no_files(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    """Nor those of tasks that have gone on: nobody would delete them, as there is no table."""
    folders = sorted((tmp_path / "lake").iterdir())
    for _ in range(4):
        with pytest.raises(ArithmeticException):
            spark.sql(f"CREATE TABLE {lake}.shop.made AS SELECT 1 div id AS a FROM range(2)")
    assert sorted((tmp_path / "lake").iterdir()) == folders


@pytest.mark.parametrize("columns", ["AS SELECT 1 AS a", "(a INT)"])
def test_a_replacement_takes_a_name_that_another_session_has_given_meanwhile(
    spark: SparkSession, lake: str, lake_url: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """Whoever replaces does not care whether there was a table."""
    place, others = ManagedName.place, tahoe.Catalog(lake_url)

    def late(name: ManagedName, location: str | None) -> TableLocation:
        found = place(name, location)
        if not found.is_known:
            others.create_table("shop.made", pa.schema([("x", pa.int64())]))
        return found

    monkeypatch.setattr(ManagedName, "place", late)
    spark.sql(f"CREATE OR REPLACE TABLE {lake}.shop.made {columns}")
    assert (spark.table(f"{lake}.shop.made").columns, others.table("shop.made").version) == (["a"], 1)
    others.drop_table("shop.made")
    with pytest.raises((tahoe.errors.TableExistsError, AnalysisException), match="exists"):
        spark.sql(f"CREATE TABLE {lake}.shop.made {columns}")
    others.drop_table("shop.made")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {lake}.shop.made {columns}")
    assert (spark.table(f"{lake}.shop.made").columns, others.table("shop.made").version) == (["x"], 0)
    others.drop_table("shop.made")
    if columns.startswith("AS"):
        spark.sql("SELECT 1 AS a").write.saveAsTable(f"{lake}.shop.made", mode="ignore")
        assert spark.table(f"{lake}.shop.made").columns == ["x"]


def test_what_makes_no_table_of_the_catalog_is_refused(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    with pytest.raises(tahoe.errors.UnsupportedOperationError, match="EXTERNAL TABLE without LOCATION"):
        spark.sql(f"CREATE EXTERNAL TABLE {lake}.shop.other (a INT)")
    spark.sql(f"CREATE EXTERNAL TABLE {lake}.shop.other (a INT) LOCATION '{tmp_path}/other'")
    for statement in (
        f"CREATE TABLE {lake}.shop.deep.t (a INT)",
        f"CREATE SCHEMA {lake}.shop.deep",
        f"CREATE TABLE {lake}.t (a INT)",
    ):
        with pytest.raises(tahoe.errors.CatalogNameError) as raised:
            spark.sql(statement)
        assert "\0" not in str(raised.value), statement
    assert not spark.catalog.tableExists(f"{lake}.shop.deep.t")


def test_properties_of_the_catalog_do_not_change(spark: SparkSession, lake: str) -> None:
    """Without its id no session would find the table again."""
    for change in (
        "UNSET TBLPROPERTIES ('io.unitycatalog.tableId')",
        "SET TBLPROPERTIES (io.unitycatalog.tableId = 'a')",
    ):
        with pytest.raises(tahoe.errors.InvalidPropertyError, match="catalog that manages the table"):
            spark.sql(f"ALTER TABLE {lake}.shop.stock {change}")
    spark.sql(
        f"CREATE OR REPLACE TABLE {lake}.shop.stock TBLPROPERTIES (io.unitycatalog.tableId = 'a') AS SELECT 1 AS a"
    )
    assert rows(spark, f"SELECT * FROM {lake}.shop.stock") == [(1,)]


def test_names_are_those_of_the_catalog(spark: SparkSession, lake: str, lake_url: str) -> None:
    spark.sql(f"ALTER TABLE {lake}.shop.orders RENAME TO shop.Sold")
    spark.sql(f"ALTER TABLE {lake}.shop.sold RENAME TO {lake}.shop.orders2")
    assert [entry.name for entry in tahoe.Catalog(lake_url).tables()] == ["shop.orders2", "shop.stock"]
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {lake}.shop").collect()] == ["orders2", "stock"]
    assert [row.namespace for row in spark.sql(f"SHOW SCHEMAS IN {lake}").collect()] == ["shop"]
    spark.sql(f"USE {lake}.shop")
    assert spark.table("STOCK").count() == spark.table(f"{lake}.SHOP.Stock").count() == 1
    assert DeltaTable.forName(spark, "stock").toDF().count() == 1
    assert spark.catalog.tableExists("stock")
    with pytest.raises(TableNameNotFoundError, match="stock"):
        DeltaTable.forName(spark, "stok")
    spark.sql("DROP TABLE orders2")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("orders2")
    with pytest.raises(tahoe.errors.SchemaNotEmptyError):
        spark.sql(f"DROP SCHEMA {lake}.shop")
    spark.sql(f"DROP SCHEMA {lake}.shop CASCADE")
    assert tahoe.Catalog(lake_url).schemas() == []


def test_a_table_of_the_session_has_the_same_name(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    """What Spark asks its own catalog must not be answered by it for a table of another one."""
    spark.sql("CREATE DATABASE IF NOT EXISTS shop")
    spark.sql(f"CREATE TABLE shop.stock USING delta LOCATION '{tmp_path}/own' AS SELECT 1 AS x")
    try:
        assert spark.sql(f"DESCRIBE DETAIL {lake}.shop.stock").head().name == f"{lake}.shop.stock"
        spark.sql(f"REFRESH TABLE {lake}.shop.stock")
        with pytest.raises(tahoe.errors.UnsupportedOperationError, match="session's catalog"):
            spark.sql(f"ALTER TABLE {lake}.shop.stock SET LOCATION '{tmp_path}/own'")
        with pytest.raises(tahoe.errors.UnsupportedOperationError, match="ANALYZE TABLE"):
            spark.sql(f"ANALYZE TABLE {lake}.shop.stock COMPUTE STATISTICS")
        assert rows(spark, "SELECT * FROM shop.stock") == [(1,)]
    finally:
        spark.sql("DROP DATABASE shop CASCADE")


def test_a_path_leads_to_the_same_table(spark: SparkSession, lake: str) -> None:
    """Never to an old version: a session with the catalog asks it."""
    spark.sql(f"INSERT INTO {lake}.shop.stock VALUES ('cup', 1)")
    folder = spark.sql(f"DESCRIBE DETAIL {lake}.shop.stock").head().location
    assert spark.read.format("delta").load(folder).count() == 2
    spark.range(1).selectExpr("'pot' item", "2 pieces").write.format("delta").mode("append").save(folder)
    assert rows(spark, f"SELECT item FROM {lake}.shop.stock") == [("cup",), ("pot",), ("tea",)]


def test_streams_read_and_write_tables(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {lake}.shop.copied (item STRING, pieces INT)")
    for _ in range(2):
        spark.sql(f"INSERT INTO {lake}.shop.stock VALUES ('cup', 1)")
        stream = spark.readStream.table(f"{lake}.shop.stock").writeStream.format("delta").trigger(availableNow=True)
        stream.option("checkpointLocation", str(tmp_path / "c")).toTable(f"{lake}.shop.copied").awaitTermination()
    assert rows(spark, f"SELECT * FROM {lake}.shop.copied") == [("cup", 1), ("cup", 1), ("tea", 10)]


def test_a_catalog_that_cannot_be_opened_is_told(spark: SparkSession) -> None:
    with pytest.raises(CatalogUrlError):
        tahoe.enable(spark, catalogs={"none": "mysterious://x"})
    spark.conf.set("spark.sql.catalog.lost", attached_catalogs.CLASS)
    with pytest.raises(CatalogUrlError, match="spark.sql.catalog.lost.url is missing"):  # noqa: RUF043
        spark.sql("SHOW SCHEMAS IN lost")
    spark.conf.unset("spark.sql.catalog.lost")


# --- a server


def test_unitys_settings_attach_a_server(spark: SparkSession, lake_url: str, tmp_path: Path) -> None:
    """Its tables are made, written and read as those of a database; what may not be seen is not found."""
    owner, guest = (fine("token", lake_url, name).strip() for name in ("ana", "bob"))
    fine("grant", lake_url, "ana", "ADMIN")
    fine("grant", lake_url, "bob", "USE")
    with serving(lake_url, "--root", str(tmp_path / "lake")) as (_, at):
        for name, token in (("unity", owner), ("guest", guest)):
            settings = {"": attached_catalogs.OF_UNITY, ".uri": at, ".token": token}
            for of, value in settings.items():
                spark.conf.set(f"spark.sql.catalog.{name}{of}", value)
        tahoe.enable(spark)
        spark.sql("CREATE SCHEMA unity.shop")
        spark.sql("CREATE TABLE unity.shop.orders (item STRING, pieces INT)")
        spark.sql("INSERT INTO unity.shop.orders VALUES ('tea', 1), ('cup', 2)")
        spark.sql("UPDATE unity.shop.orders SET pieces = 5 WHERE item = 'cup'")
        spark.sql("CREATE OR REPLACE TABLE unity.shop.stock AS SELECT 'tea' AS item, 10 AS pieces")
        spark.sql("DELETE FROM unity.shop.stock")
        assert rows(spark, "SELECT * FROM unity.shop.orders") == [("cup", 5), ("tea", 1)]
        assert tahoe.Catalog(lake_url).table("shop.orders").count() == 2
        assert [row.tableName for row in spark.sql("SHOW TABLES IN unity.shop").collect()] == ["orders", "stock"]
        assert not spark.catalog.tableExists("guest.shop.orders")
        spark.sql("DROP TABLE unity.shop.stock")
        assert [entry.name for entry in tahoe.Catalog(lake_url).tables()] == ["shop.orders"]
        finish_background()
    for name in ("unity", "guest"):
        spark.conf.unset(f"spark.sql.catalog.{name}")
