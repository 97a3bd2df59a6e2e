"""Catalogs that a session has attached: their tables in each statement, and transactions over several of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tahoe
from tahoe.errors import (
    CatalogManagedTableError,
    CatalogNotChosenError,
    CatalogUrlError,
    OperationNotAllowedError,
    TableNameNotFoundError,
    TransactionConflictError,
    TransactionStateError,
)
from tahoe.spark.jvm import attached_catalogs
from tahoe.storage.background import finish_background
from tahoe.tables import DeltaTable
from tests.catalog.commands import fine, serving

_numbers = itertools.count()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def lake(spark: SparkSession, url: str, tmp_path: Path) -> Iterator[str]:
    """The name of an attached catalog with a schema `shop`, which has tables of items and pieces."""
    name = f"lake{next(_numbers)}"
    tahoe.enable(spark, catalogs={name: {"url": url, "root": str(tmp_path / "lake")}})
    spark.sql(f"CREATE SCHEMA {name}.shop")
    spark.sql(f"CREATE TABLE {name}.shop.orders (item STRING, pieces INT)")
    spark.sql(f"CREATE TABLE {name}.shop.stock AS SELECT 'tea' AS item, 10 AS pieces")
    yield name
    finish_background()
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.conf.unset(f"spark.sql.catalog.{name}")


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql(query).collect()), key=repr)


# --- names


def test_a_table_has_every_statement(spark: SparkSession, lake: str, url: str) -> None:
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
    assert tahoe.Catalog(url).table("shop.orders").count() == 2
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
    spark.sql(f"CREATE TABLE {lake}.shop.liked LIKE {lake}.shop.saved")
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
    stock, copies = f"{lake}.shop.stock", ["default.liked_stock", "default.shallow_stock", f"delta.`{tmp_path}/deep`"]
    for copy, how in zip(copies, ("LIKE", "SHALLOW CLONE", "DEEP CLONE"), strict=True):
        spark.sql(f"CREATE TABLE {copy} {how} {stock}")
        spark.sql(f"INSERT INTO {copy} VALUES ('cup', 1)")
        detail = spark.sql(f"DESCRIBE DETAIL {copy}").head()
        assert "catalogManaged" not in detail.tableFeatures, how
        assert not [name for name in detail.properties if "unitycatalog" in name], how
    assert [spark.table(copy).count() for copy in copies] == [1, 2, 2]
    assert spark.table(stock).count() == 1
    assert "unitycatalog" not in spark.sql(f"SHOW CREATE TABLE {stock}").head()[0]
    for copy in copies[:2]:
        spark.sql(f"DROP TABLE {copy}")


def test_a_table_of_another_format_is_refused(spark: SparkSession, lake: str) -> None:
    with pytest.raises(tahoe.errors.UnsupportedOperationError, match="format csv"):
        spark.sql(f"CREATE TABLE {lake}.shop.other (a INT) USING csv")
    with pytest.raises(tahoe.errors.UnsupportedOperationError, match="format json"):
        spark.range(1).write.format("json").saveAsTable(f"{lake}.shop.other")
    assert not spark.catalog.tableExists(f"{lake}.shop.other")
    spark.range(1).write.saveAsTable(f"{lake}.shop.other")
    assert "catalogManaged" in spark.sql(f"DESCRIBE DETAIL {lake}.shop.other").head().tableFeatures


def test_names_are_those_of_the_catalog(spark: SparkSession, lake: str, url: str) -> None:
    spark.sql(f"ALTER TABLE {lake}.shop.orders RENAME TO shop.Sold")
    spark.sql(f"ALTER TABLE {lake}.shop.sold RENAME TO {lake}.shop.orders2")
    assert [entry.name for entry in tahoe.Catalog(url).tables()] == ["shop.orders2", "shop.stock"]
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
    assert tahoe.Catalog(url).schemas() == []


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


def test_unitys_settings_attach_a_server(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """Its tables are made, written and read as those of a database; what may not be seen is not found."""
    owner, guest = (fine("token", url, name).strip() for name in ("ana", "bob"))
    fine("grant", url, "ana", "ADMIN")
    fine("grant", url, "bob", "USE")
    with serving(url, "--root", str(tmp_path / "lake")) as (_, at):
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
        assert tahoe.Catalog(url).table("shop.orders").count() == 2
        assert [row.tableName for row in spark.sql("SHOW TABLES IN unity.shop").collect()] == ["orders", "stock"]
        assert not spark.catalog.tableExists("guest.shop.orders")
        spark.sql("DROP TABLE unity.shop.stock")
        assert [entry.name for entry in tahoe.Catalog(url).tables()] == ["shop.orders"]
        finish_background()
    for name in ("unity", "guest"):
        spark.conf.unset(f"spark.sql.catalog.{name}")


# --- transactions


def pieces(spark: SparkSession, lake: str) -> tuple[int, int]:
    """Those ordered, and those in stock."""
    query = "SELECT (SELECT coalesce(sum(pieces), 0) FROM {0}.shop.orders), (SELECT sum(pieces) FROM {0}.shop.stock)"
    ordered, left = spark.sql(query.format(lake)).head()
    return ordered, left


def order(spark: SparkSession, lake: str, count: int = 3) -> None:
    spark.sql(f"INSERT INTO {lake}.shop.orders VALUES ('tea', {count})")
    spark.sql(f"UPDATE {lake}.shop.stock SET pieces = pieces - {count} WHERE item = 'tea'")


def test_statements_of_a_block_become_visible_at_once(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()
    with tahoe.transaction(spark, catalog=lake):
        order(spark, lake)
        spark.sql(f"ALTER TABLE {lake}.shop.orders ADD COLUMN note STRING")
        spark.sql(f"INSERT INTO {lake}.shop.orders VALUES ('cup', 1, 'n')")
        assert pieces(spark, lake) == (4, 7)
        assert pieces(other, lake) == (0, 10)
    assert pieces(spark, lake) == pieces(other, lake) == (4, 7)


@pytest.mark.parametrize("fails", [True, False])
def test_a_block_that_fails_leaves_nothing(spark: SparkSession, lake: str, fails: bool) -> None:
    def block() -> None:
        spark.sql(f"USE {lake}.shop")
        spark.sql("BEGIN TRANSACTION")
        order(spark, lake)
        assert pieces(spark, lake) == (3, 7)
        spark.sql("ROLLBACK")

    if fails:
        with pytest.raises(AnalysisException), tahoe.transaction(spark, catalog=lake):
            order(spark, lake)
            spark.sql(f"INSERT INTO {lake}.shop.orders SELECT no_column FROM {lake}.shop.stock")
    else:
        block()
    assert pieces(spark, lake) == (0, 10)
    order(spark, lake)
    assert pieces(spark, lake) == (3, 7)


def test_rows_of_a_block_do_not_get_into_caches(spark: SparkSession, lake: str) -> None:
    """Neither into DataFrames that are cached, nor for another version of the same number."""
    stock, other = f"{lake}.shop.stock", spark.newSession()
    cached = spark.table(stock).cache()
    cached.count()
    try:
        spark.sql(f"USE {lake}.shop")
        spark.sql("BEGIN TRANSACTION")
        spark.sql(f"UPDATE {stock} SET pieces = 0")
        within = spark.table(stock).cache()
        assert within.collect()[0].pieces == 0
        within.createOrReplaceTempView("within")
        assert other.table(stock).collect()[0].pieces == 10
        spark.sql("ROLLBACK")
        assert spark.table("within").collect()[0].pieces == 10
        other.sql(f"UPDATE {stock} SET pieces = 11")
        assert spark.table(stock).collect()[0].pieces == other.table(stock).collect()[0].pieces == 11
        with tahoe.transaction(spark, catalog=lake):
            spark.sql(f"UPDATE {stock} SET pieces = pieces + 1")
        assert cached.collect()[0].pieces == other.table(stock).collect()[0].pieces == 12
    finally:
        spark.catalog.clearCache()


def test_a_block_goes_behind_what_does_not_conflict(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()
    with tahoe.transaction(spark, catalog=lake):
        order(spark, lake)
        other.sql(f"INSERT INTO {lake}.shop.orders VALUES ('cup', 5)")
    assert pieces(spark, lake) == (8, 7)


def test_a_conflict_leaves_all_tables_as_they_were(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()

    def block() -> None:
        with tahoe.transaction(spark, catalog=lake):
            order(spark, lake)
            other.sql(f"UPDATE {lake}.shop.stock SET pieces = 100")

    with pytest.raises(tahoe.errors.DeltaConcurrentModificationException):
        block()
    assert pieces(spark, lake) == (0, 100)


def test_what_was_only_read_counts_on_request(spark: SparkSession, lake: str) -> None:
    other = spark.newSession()

    def block(serializable: bool) -> None:
        with tahoe.transaction(spark, catalog=lake, serializable=serializable):
            left = spark.table(f"{lake}.shop.stock").head().pieces
            spark.sql(f"INSERT INTO {lake}.shop.orders VALUES ('tea', {left})")
            other.sql(f"UPDATE {lake}.shop.stock SET pieces = pieces - 1")

    block(False)
    with pytest.raises(TransactionConflictError):
        block(True)
    assert pieces(spark, lake) == (10, 8)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {lake}.shop.new (a INT)",
        "CREATE TABLE spark_catalog.default.new_in_block (a INT) USING delta",
        "CREATE TABLE spark_catalog.default.new_in_block USING parquet AS SELECT 1 AS a",
        "DROP TABLE {lake}.shop.stock",
        "DROP SCHEMA {lake}.shop",
        "ALTER TABLE {lake}.shop.stock RENAME TO shop.other",
        "VACUUM {lake}.shop.stock",
        "INSERT INTO delta.`{path}` VALUES (1)",
        "DELETE FROM delta.`{path}`",
        "ALTER TABLE delta.`{path}` SET TBLPROPERTIES (a = 'b')",
        "OPTIMIZE delta.`{path}`",
        "VACUUM delta.`{path}`",
        "RESTORE delta.`{path}` TO VERSION AS OF 0",
        "CREATE TABLE delta.`{path}2` DEEP CLONE delta.`{path}`",
        "GENERATE symlink_format_manifest FOR TABLE delta.`{path}`",
        "GENERATE symlink_format_manifest FOR TABLE {lake}.shop.stock",
        "CREATE VIEW default.view_in_block AS SELECT 1 AS a",
        "CREATE GLOBAL TEMPORARY VIEW view_in_block AS SELECT 1 AS a",
        "CREATE DATABASE spark_catalog.made_in_block",
        "ALTER DATABASE spark_catalog.default SET DBPROPERTIES (a = 'b')",
        "COMMENT ON DATABASE spark_catalog.default IS 'a'",
        "CREATE FUNCTION default.made_in_block(a INT) RETURNS INT RETURN a",
    ],
)
def test_what_a_block_cannot_undo_is_refused(spark: SparkSession, lake: str, tmp_path: Path, statement: str) -> None:
    path = tmp_path / "plain"
    for _ in range(2):
        spark.range(2).write.format("delta").mode("append").save(str(path))
    finish_background()
    before = sorted(file for file in tmp_path.glob("plain*/**/*"))
    with tahoe.transaction(spark, catalog=lake):
        order(spark, lake)
        with pytest.raises(OperationNotAllowedError, match="transaction"):
            spark.sql(statement.format(lake=lake, path=path))
    assert pieces(spark, lake) == (3, 7)
    assert sorted(file for file in tmp_path.glob("plain*/**/*")) == before
    assert spark.read.format("delta").load(str(path)).count() == 4


def test_tables_of_other_formats_do_not_change_in_a_block(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    data = spark.range(1).selectExpr("1 AS a", "2 AS p")
    plain = "default.plain_of_block"
    data.write.format("parquet").partitionBy("p").mode("overwrite").saveAsTable(plain)
    files = sorted(file for file in tmp_path.glob("**/*"))
    with tahoe.transaction(spark, catalog=lake):
        for statement in (
            "ALTER TABLE {t} ADD COLUMNS (b INT)",
            "ALTER TABLE {t} SET TBLPROPERTIES (a = 'b')",
            "ALTER TABLE {t} DROP PARTITION (p = 2)",
            "ALTER TABLE {t} RENAME TO default.renamed_in_block",
            "ANALYZE TABLE {t} COMPUTE STATISTICS",
            "COMMENT ON TABLE {t} IS 'a'",
            "MSCK REPAIR TABLE {t}",
            "TRUNCATE TABLE {t}",
            "INSERT INTO {t} VALUES (1, 3)",
            "DROP TABLE {t}",
        ):
            with pytest.raises(OperationNotAllowedError, match="transaction"):
                spark.sql(statement.format(t=plain))
        with pytest.raises(OperationNotAllowedError, match="transaction"):
            data.write.jdbc(f"jdbc:derby:{tmp_path}/derby;create=true", "data")
        with pytest.raises(OperationNotAllowedError, match="transaction"):
            data.createOrReplaceGlobalTempView("view_in_block")
        data.write.format("noop").mode("overwrite").save()
    assert sorted(file for file in tmp_path.glob("**/*")) == files
    assert rows(spark, f"SELECT * FROM {plain}") == [(1, 2)]
    spark.sql(f"DROP TABLE {plain}")


def test_what_ends_with_the_session_is_made_in_a_block(spark: SparkSession, lake: str) -> None:
    with tahoe.transaction(spark, catalog=lake):
        for statement in (
            "CREATE TEMPORARY VIEW of_session AS SELECT 1 AS a",
            "ALTER VIEW of_session AS SELECT 2 AS a",
            "ALTER VIEW of_session RENAME TO renamed",
            "CREATE TEMPORARY FUNCTION next_of(a INT) RETURNS INT RETURN a + 1",
        ):
            spark.sql(statement)
        assert rows(spark, "SELECT next_of(a) FROM renamed") == [(3,)]
        spark.sql("DROP VIEW renamed")
        spark.sql("DROP TEMPORARY FUNCTION next_of")


def test_a_stream_is_no_part_of_a_block(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    stream = spark.readStream.table(f"{lake}.shop.stock").writeStream.format("delta")
    stream.option("checkpointLocation", str(tmp_path / "c"))
    with tahoe.transaction(spark, catalog=lake), pytest.raises(OperationNotAllowedError, match="A stream"):
        stream.toTable(f"{lake}.shop.orders")


def test_blocks_begin_and_end_in_turn(spark: SparkSession, lake: str) -> None:
    with pytest.raises(TransactionStateError, match="in no transaction"):
        spark.sql("COMMIT")
    with tahoe.transaction(spark, catalog=lake), pytest.raises(TransactionStateError, match="already"):
        spark.sql("BEGIN TRANSACTION")
    with pytest.raises(CatalogNotChosenError, match="nowhere"), tahoe.transaction(spark, catalog="nowhere"):
        pass
    spark.sql(f"USE {lake}.shop")
    spark.sql("START TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    order(spark, lake)
    spark.sql("COMMIT WORK")
    assert pieces(spark, lake) == (3, 7)


def test_sessions_have_blocks_of_their_own(spark: SparkSession, lake: str) -> None:
    """At the same time, in threads; each thread's session sees its own writes, and all orders are there at the end."""
    failures = list[BaseException]()

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    def orders(number: int) -> Callable[[], None]:
        def work() -> None:
            session = spark.newSession()
            for _ in range(3):
                with tahoe.transaction(session, catalog=lake):
                    session.sql(f"INSERT INTO {lake}.shop.orders VALUES ('{number}', 1)")
                    session.sql(f"INSERT INTO {lake}.shop.stock VALUES ('{number}', -1)")
                    ordered, left = pieces(session, lake)
                    assert ordered + left == 10

        return work

    threads = [threading.Thread(target=run, args=(orders(number),)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert pieces(spark, lake) == (9, 1)


def test_a_block_has_the_changes_of_its_own_versions(spark: SparkSession, lake: str) -> None:
    spark.sql(f"ALTER TABLE {lake}.shop.stock SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    changes = f"SELECT _change_type, pieces FROM table_changes('{lake}.shop.stock', 2)"
    with tahoe.transaction(spark, catalog=lake):
        spark.sql(f"UPDATE {lake}.shop.stock SET pieces = 9")
        assert rows(spark, changes) == [("update_postimage", 9), ("update_preimage", 10)]
    assert rows(spark, changes) == [("update_postimage", 9), ("update_preimage", 10)]


def test_the_catalog_without_spark_sees_the_same(spark: SparkSession, lake: str, url: str) -> None:
    catalog = tahoe.Catalog(url)
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(pa.table({"item": ["tea"], "pieces": pa.array([4], pa.int32())}))
        changes.table("shop.stock").update({"pieces": "pieces - 4"})
        assert pieces(spark, lake) == (0, 10)
    assert pieces(spark, lake) == (4, 6)
