"""Tables of a catalog's server in S3, in a session without keys: tasks and log use what the server hands out. moto takes
any keys, but a client must have some. `make interop-s3`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.catalog.grants import CREATE_TABLE, MODIFY, SELECT, USE_CATALOG, USE_SCHEMA
from tahoe.catalog.remote_credentials import _EARLY_MS
from tahoe.catalog.server.roles import session_credentials
from tahoe.spark.jvm.attached_catalogs import handing_at
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.table_cache import handed_settings
from tahoe.storage.background import finish_background
from tests.catalog.serving import Served, listening, served
from tests.hadoop.conftest import jars, session
from tests.storage.servers import BUCKET, S3_KEY, S3_REGION, S3_SECRET, Server, hadoop_options, s3_server

ROLE = "arn:aws:iam::123456789012:role/lake"
HOUR_MS = 3_600_000
KEY = f"fs.s3a.bucket.{BUCKET}.access.key"


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    with s3_server("moto") as server:
        yield server


@pytest.fixture(scope="session")
def spark(s3: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {name: value for name, value in hadoop_options(s3).items() if not name.endswith(".key")}
    with session(tmp_path_factory.mktemp("spark"), jars("s3"), settings) as spark:
        yield spark


@pytest.fixture
def lake(s3: Server, tmp_path: Path) -> Iterator[Served]:
    keys = {"access_key_id": S3_KEY, "secret_access_key": S3_SECRET, "region": S3_REGION}
    given = {s3.url: {"role": ROLE, "sts_endpoint": s3.endpoint, **keys}}
    found = served(tmp_path, root=f"{s3.url}/{tmp_path.name}", storage_options=s3.options, credentials=given)
    found.catalog.create_schema("shop")
    yield found
    finish_background()


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, dict[str, str]]]:
    """What the server has handed out: for which folder, whether to write, and the keys."""
    found = list[tuple[str, bool, dict[str, str]]]()

    def kept(*given: Any, writes: bool) -> Any:
        keys, expires_ms = session_credentials(*given, writes=writes)
        found.append((given[1], writes, keys))
        return keys, expires_ms

    monkeypatch.setattr("tahoe.catalog.server.credentials.session_credentials", kept)
    return found


@pytest.fixture
def writer(spark: SparkSession, lake: Served) -> Iterator[tuple[SparkSession, str]]:
    """A session of somebody who may write, and the catalog's name in it."""
    maker = lake.client("maker", USE_CATALOG, USE_SCHEMA, CREATE_TABLE, SELECT, MODIFY)
    with listening(lake.service) as at:
        yield attached(spark, at, maker.token), "lake"
        finish_background()


def attached(spark: SparkSession, at: str, token: str | None) -> SparkSession:
    assert token is not None
    return tahoe.enable(spark.newSession(), catalogs={"lake": {"url": at, "token": token}})


def keys_of_scans(frame: Any) -> dict[str, str | None]:
    """The keys with which each table of a query is read, by its folder."""
    found = dict[str, str | None]()
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    for leaf in (leaves.apply(place) for place in range(leaves.size())):
        key = leaf.relation().options().get(KEY)
        found[str(leaf.relation().location().table())] = str(key.get()) if key.isDefined() else None
    return found


def test_every_statement_uses_the_server_s_keys(
    writer: tuple[SparkSession, str], lake: Served, handed: list[tuple[str, bool, dict[str, str]]]
) -> None:
    spark, name = writer
    orders = f"{name}.shop.orders"
    spark.sql(f"CREATE TABLE {orders} (id BIGINT, item STRING) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    for statement in (
        "INSERT INTO {t} VALUES (1, 'tea'), (2, 'cup')",
        "UPDATE {t} SET item = 'pot' WHERE id = 2",
        "MERGE INTO {t} t USING (SELECT 3 AS id, 'jug' AS item) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM {t} WHERE id = 1",
        "OPTIMIZE {t}",
        "VACUUM {t}",
    ):
        spark.sql(statement.format(t=orders))
    assert sorted(map(tuple, spark.sql(f"SELECT * FROM {orders}").collect())) == [(2, "pot"), (3, "jug")]
    changes = spark.read.option("readChangeFeed", "true").option("startingVersion", 1).table(orders)
    assert changes.where("_change_type = 'delete'").count() == 1
    spark.sql(f"CREATE TABLE {name}.shop.copied AS SELECT * FROM {orders}")
    with tahoe.transaction(spark, catalog=name):
        for table in ("orders", "copied"):
            spark.sql(f"INSERT INTO {name}.shop.{table} VALUES (9, 'lid')")
    folders = [lake.catalog.folder_of(f"shop.{table}")[1] for table in ("orders", "copied")]
    assert [(url, writes) for url, writes, _ in handed] == [(url, True) for url in folders]
    query = spark.sql(f"SELECT id FROM {orders} JOIN {name}.shop.copied USING (id)")
    assert query.count() == 3
    keys = keys_of_scans(query)
    assert keys == {url.replace("s3:", "s3a:"): found["access_key_id"] for url, _, found in handed}
    assert len(set(keys.values())) == 2


def test_keys_are_nowhere_else(
    writer: tuple[SparkSession, str], handed: list[tuple[str, bool, dict[str, str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    spark, name = writer
    spark.sql(f"CREATE TABLE {name}.shop.orders AS SELECT 1 AS id")
    query = spark.sql(f"SELECT * FROM {name}.shop.orders WHERE id > 0")
    query.explain(mode="extended")
    query.explain(mode="formatted")
    assert query.count() == 1
    gateway, execution = Gateway(spark), query._jdf.queryExecution()
    context = spark.sparkContext._jsc.hadoopConfiguration()
    told = "\n".join(
        (
            *capfd.readouterr(),
            str(execution.toString()),
            str(execution.analyzed().prettyJson()),
            repr(gateway.settings()),
            repr(spark.sparkContext.getConf().getAll()),
            *(str(conf.get(KEY)) for conf in (context, gateway.session.sessionState().newHadoopConf())),
        )
    )
    assert "None" in told
    (_, _, keys), *others = handed
    assert not others
    assert [value for value in keys.values() if value in told] == []


def test_new_keys_are_used_before_the_old_ones_expire(
    writer: tuple[SparkSession, str],
    handed: list[tuple[str, bool, dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark, name = writer
    spark.sql(f"CREATE TABLE {name}.shop.orders AS SELECT 1 AS id")
    now = time.time_ns
    monkeypatch.setattr(
        "tahoe.catalog.remote_credentials.time.time_ns", lambda: now() + (HOUR_MS - _EARLY_MS + 60_000) * 10**6
    )
    spark.sql(f"INSERT INTO {name}.shop.orders VALUES (2)")
    query = spark.table(f"{name}.shop.orders")
    assert query.count() == 2
    assert len(handed) == 2
    assert set(keys_of_scans(query).values()) == {handed[1][2]["access_key_id"]}


def test_one_file_system_serves_all_files_of_a_table(writer: tuple[SparkSession, str]) -> None:
    """Those of two tables are two."""
    spark, name = writer
    systems = Gateway(spark).java_class("delta.shared.SharedFileSystem")
    before = systems.opened()
    for table in ("many", "other"):
        spark.sql(f"CREATE TABLE {name}.shop.{table} AS SELECT id FROM range(0, 40, 1, 20)")
        assert spark.table(f"{name}.shop.{table}").agg({"id": "sum"}).collect() == [(780,)]
    assert systems.opened() - before == 2


def test_who_may_only_read_has_keys_to_read(
    spark: SparkSession, lake: Served, handed: list[tuple[str, bool, dict[str, str]]]
) -> None:
    lake.catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    reader = lake.client("reader", USE_CATALOG, USE_SCHEMA, SELECT)
    with listening(lake.service) as at:
        session = attached(spark, at, reader.token)
        assert session.table("lake.shop.orders").collect() == []
    assert [(url, writes) for url, writes, _ in handed] == [(lake.catalog.folder_of("shop.orders")[1], False)]


def test_keys_of_the_session_s_own_are_used(
    writer: tuple[SparkSession, str], lake: Served, handed: list[tuple[str, bool, dict[str, str]]]
) -> None:
    spark, _ = writer
    orders = lake.catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    spark.conf.set("fs.s3a.access.key", S3_KEY)
    spark.conf.set("fs.s3a.secret.key", S3_SECRET)
    assert DeltaTable.forName(spark, "lake.shop.orders").detail().head().numFiles == 0
    assert handed_settings(Gateway(spark), orders.url.replace("s3:", "s3a:"), {}) == {}
    assert handed == []


def test_each_session_has_keys_by_its_own_token(writer: tuple[SparkSession, str], lake: Served) -> None:
    spark, name = writer
    spark.sql(f"CREATE TABLE {name}.shop.orders AS SELECT 1 AS id")
    folder = lake.catalog.folder_of("shop.orders")[1]
    at, reader = spark.conf.get(f"spark.sql.catalog.{name}.url"), lake.client("reader", USE_CATALOG, USE_SCHEMA, SELECT)
    assert at is not None
    other = attached(spark, at, reader.token)
    assert handing_at(Gateway(other), folder) is None
    assert other.table(f"{name}.shop.orders").count() == 1
    mine, theirs = (handing_at(Gateway(each), folder) for each in (spark, other))
    assert mine is not None
    assert theirs is not None
    assert mine().options != theirs().options
