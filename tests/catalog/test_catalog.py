"""A catalog in a database: names, commits that it ratifies, and transactions over several tables."""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from deltalake import DeltaTable

import tahoe
from tahoe.catalog.catalog import Catalog, _Publishing
from tahoe.catalog.database import MIGRATIONS, open_database
from tahoe.catalog.grants import SELECT, Securable, grant, granted, new_token
from tahoe.catalog.registration import TABLE_ID
from tahoe.catalog.tables_of_database import METADATA
from tahoe.errors import (
    CatalogManagedTableError,
    CatalogNameError,
    CatalogNameTakenError,
    CatalogTableNotFoundError,
    CatalogUrlError,
    DeltaConcurrentModificationException,
    ExternalTableError,
    NewerCatalogError,
    SchemaNotEmptyError,
    SchemaNotFoundError,
    StorageRefusedError,
    TableNotFoundError,
    TableNotManagedError,
)
from tahoe.protocol.configuration.features import supported_features
from tahoe.storage.background import finish_background
from tahoe.storage.locations import local_path
from tahoe.storage.managed import ManagedStore

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture
def catalog(url: str, tmp_path: Path) -> Catalog:
    found = Catalog(url, root=str(tmp_path / "lake"))
    found.create_schema("shop")
    return found


def test_a_table_of_a_catalog_is_written_and_read_like_any_other(catalog: Catalog, url: str) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1, 2, 3))
    made.delete("id = 2")
    assert ids(catalog.table("shop.orders")) == ids(Catalog(url).table("shop.orders")) == [1, 3]
    assert [entry["operation"] for entry in made.history()] == ["DELETE", "WRITE", "CREATE TABLE"]
    assert ids(tahoe.Table(made.url, env=made.env)) == [1, 3]
    assert [(entry.name, entry.latest_version) for entry in catalog.tables()] == [("shop.orders", 2)]


def test_a_path_does_not_show_what_only_the_catalog_knows(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    catalog.publish("shop.orders")
    for call in (lambda: tahoe.Table(made.url).to_arrow(), lambda: tahoe.Table(made.url).append(rows(1))):
        with pytest.raises(CatalogManagedTableError, match="by its name"):
            call()


def test_published_commits_are_those_of_the_catalog(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    for number in range(5):
        made.append(rows(number))
    catalog.publish("shop.orders")
    (entry,) = catalog.tables("shop")
    assert (entry.latest_version, entry.unpublished) == (5, 0)
    log = Path(made.url.removeprefix("file://")) / "_delta_log"
    assert sorted(path.name for path in log.glob("*.json")) == [f"{version:020}.json" for version in range(6)]
    info = json.loads((log / f"{5:020}.json").read_text().splitlines()[0])["commitInfo"]
    assert info["txnId"]
    assert info["inCommitTimestamp"]
    assert ids(catalog.table("shop.orders")) == list(range(5))


def test_what_was_read_of_a_commit_is_valid_after_it_is_published(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handle reads the commits since, whatever the table's size: it does not load the table again."""
    catalog.create_table("shop.orders", SCHEMA).append(rows(1))
    writer, reader = catalog.table("shop.orders"), catalog.table("shop.orders")
    assert ids(reader) == ids(writer) == [1]
    catalog.publish("shop.orders")
    monkeypatch.setattr(
        "tahoe.table.reading.snapshot.load_snapshot", lambda *_, **__: pytest.fail("the table is loaded again")
    )
    writer.append(rows(2))
    assert ids(reader) == [1, 2]


def test_a_version_that_the_catalog_does_not_know_is_not_there(catalog: Catalog) -> None:
    """Whoever writes past the catalog does not change what its readers see."""
    made = catalog.create_table("shop.orders", SCHEMA)
    catalog.publish("shop.orders")
    made.env.store.inner.put(f"_delta_log/{1:020}.json", b'{"commitInfo": {"operation": "past the catalog"}}')
    assert catalog.table("shop.orders").version == 0
    catalog.table("shop.orders").append(rows(1))
    assert ids(catalog.table("shop.orders")) == [1]


def test_two_writers_of_a_table_take_turns(catalog: Catalog, url: str) -> None:
    catalog.create_table("shop.orders", SCHEMA).append(rows(1))
    one, other = catalog.table("shop.orders"), Catalog(url).table("shop.orders")
    with one.transaction() as changes:
        changes.append(rows(2))
        other.append(rows(3))
    assert ids(one) == [1, 2, 3]
    with pytest.raises(DeltaConcurrentModificationException), one.transaction() as changes:
        changes.delete("id = 1")
        other.delete("id <= 3")


# --- tables that are given back to their paths


def test_a_table_is_given_back_to_its_path(catalog: Catalog, url: str) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    others = Catalog(url).table("shop.orders")
    by_path = catalog.release_table("shop.orders")
    by_path.append(rows(2))
    by_path.drop_feature("vacuumProtocolCheck")
    assert sorted(DeltaTable(local_path(made.url)).to_pyarrow_table()["id"].to_pylist()) == [1, 2]  # delta-rs
    assert ids(tahoe.Table(made.url)) == ids(catalog.table("shop.orders")) == [1, 2]
    assert [tahoe.Table(made.url).snapshot(version).to_arrow().num_rows for version in range(4)] == [0, 1, 1, 2]
    assert [entry.kind for entry in catalog.tables()] == ["external"]
    with pytest.raises(TableNotManagedError, match="dropped, or given back"):
        others.append(rows(3))
    with pytest.raises(ExternalTableError):
        catalog.release_table("shop.orders")
    catalog.drop_table("shop.orders")
    assert catalog.tables() == []
    assert ids(catalog.register_table("shop.again", made.url)) == [1, 2]


def test_grants_on_a_table_end_with_its_name(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    table_id = catalog.located("shop.orders")[0]
    on = Securable(kind="table", id=table_id, name="lake.shop.orders")
    with catalog._begin() as connection:
        new_token(connection, "ana")
        grant(connection, "ana", SELECT, on)
    catalog.drop_table("shop.orders")
    catalog.register_table("shop.orders", made.url)
    assert catalog.located("shop.orders")[0] == table_id
    with catalog._begin() as connection:
        assert granted(connection, on) == {}


def test_a_table_that_is_given_back_half_is_refused_until_it_is_done(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    with monkeypatch.context() as dies:
        dies.setattr("tahoe.catalog.registration.without_catalog", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            catalog.release_table("shop.orders")
    for table in (catalog.table("shop.orders"), tahoe.Table(made.url)):
        with pytest.raises(CatalogManagedTableError):
            table.append(rows(2))
        with pytest.raises(CatalogManagedTableError):
            table.snapshot(0)
    catalog.release_table("shop.orders").append(rows(2))
    assert ids(tahoe.Table(made.url)) == [1, 2]


@pytest.mark.parametrize("dies_in", ["_entered", "without_catalog"])
def test_a_name_whose_table_was_given_back_half_is_dropped_and_the_table_stays_open(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    with monkeypatch.context() as dies:
        dies.setattr(f"tahoe.catalog.registration.{dies_in}", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            catalog.release_table("shop.orders")
    catalog.drop_table("shop.orders")
    assert ids(tahoe.Table(made.url)) == [1]
    assert ids(catalog.register_table("shop.again", made.url)) == [1]
    catalog.release_table("shop.again")
    finish_background()
    shutil.rmtree(local_path(made.url))
    catalog.drop_table("shop.again")
    assert catalog.tables() == []


@pytest.mark.parametrize("others_do", ["drop", "release"])
def test_a_table_is_given_back_only_if_the_catalog_still_manages_it(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, others_do: str
) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))

    def publish(store: ManagedStore, _: int | None = None) -> int:
        monkeypatch.undo()
        store.publish()
        if others_do == "release":
            catalog.release_table("shop.orders")
        else:
            catalog.drop_table("shop.orders")
        return 0

    finish_background()  # which publishes, too
    monkeypatch.setattr(ManagedStore, "publish", publish)
    expected = ExternalTableError if others_do == "release" else CatalogTableNotFoundError
    with pytest.raises(expected):
        catalog.release_table("shop.orders")
    if others_do == "drop":
        with pytest.raises(CatalogManagedTableError):  # nothing was committed by the path
            tahoe.Table(made.url).snapshot()
        assert ids(catalog.register_table("shop.orders", made.url)) == [1]


def test_writers_of_a_table_that_is_given_back_win_before_or_are_refused(catalog: Catalog, url: str) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    written: list[int] = []

    def write() -> None:
        table = Catalog(url).table("shop.orders")
        with suppress(TableNotManagedError, StorageRefusedError):  # it finds out when it reads, or when it commits
            for number in range(100):
                table.append(rows(number))
                written.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    while len(written) < 3:
        time.sleep(0.01)
    catalog.release_table("shop.orders")
    writer.join()
    assert ids(tahoe.Table(made.url)) == written


# --- tables that are there


def test_a_table_that_is_there_gets_a_name(catalog: Catalog, tmp_path: Path) -> None:
    plain = tahoe.Table(str(tmp_path / "plain"))
    for number in range(3):
        plain.append(rows(number))
    made = catalog.register_table("shop.Plain", str(tmp_path / "plain"))
    made.append(rows(3))
    with catalog.transaction() as changes:
        changes.table("shop.plain").delete("id = 0")
    assert ids(made) == ids(catalog.table("shop.plain")) == [1, 2, 3]
    assert made.snapshot(2).count() == 3
    for call in (lambda: plain.to_arrow(), lambda: plain.append(rows(9)), lambda: tahoe.Table(plain.url).version):
        with pytest.raises(CatalogManagedTableError):
            call()
    with pytest.raises(CatalogNameTakenError):
        catalog.register_table("shop.plain", str(tmp_path / "plain"))
    with pytest.raises(TableNotFoundError):
        catalog.register_table("shop.none", str(tmp_path / "none"))


def test_a_dropped_table_is_registered_again(catalog: Catalog, url: str, tmp_path: Path) -> None:
    """By this catalog, which knows its id, and by no other one."""
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    other = Catalog(f"sqlite:///{tmp_path}/other.db")
    other.create_schema("shop")
    for _ in range(2):
        catalog.drop_table("shop.orders")
        with pytest.raises(CatalogNameError, match="another catalog"):
            other.register_table("shop.mine", made.url)
        made = Catalog(url).register_table("shop.orders", made.url)
        made.append(rows(2))
    assert ids(made) == [1, 2, 2]
    assert made.properties[TABLE_ID] == catalog.tables()[0].id


def test_a_registration_that_died_goes_on(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commit that says so and the name."""
    place = str(tmp_path / "plain")
    tahoe.Table(place).append(rows(1))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Catalog, "_enter", dies)
        catalog.register_table("shop.plain", place)
    assert catalog.tables() == []
    with pytest.raises(CatalogManagedTableError):
        tahoe.Table(place).append(rows(2))
    made = catalog.register_table("shop.other", place)
    made.append(rows(3))
    assert ids(made) == [1, 3]


def test_a_table_around_another_one_is_refused_before_it_is_changed(catalog: Catalog, tmp_path: Path) -> None:
    """Otherwise it would have no way in: neither its path nor a name."""
    outer = tahoe.Table(str(tmp_path / "outer"))
    outer.append(rows(1))
    catalog.create_table("shop.inner", SCHEMA, location=f"{outer.url}/inner")
    with pytest.raises(CatalogNameError, match="has a table in"):
        catalog.register_table("shop.outer", outer.url)
    outer.append(rows(2))
    assert ids(outer) == [1, 2]


# --- names


def test_tables_are_beside_a_file_unless_a_root_is_given(url: str, tmp_path: Path) -> None:
    bare = Catalog(url)
    bare.create_schema("shop")
    if url.startswith("sqlite"):
        made = bare.create_table("shop.orders", SCHEMA)
        made.append(rows(1))
        assert made.url.startswith(f"file://{tmp_path}/lake.db.tables/")
    else:
        with pytest.raises(CatalogNameError, match="no root"):
            bare.create_table("shop.orders", SCHEMA)


def test_names_that_cannot_be_are_refused(catalog: Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA)
    for name in ("orders", "shop.", ".orders", "a.b.c", "shop.a b", "shop.a/b", "shop." + "x" * 300):
        with pytest.raises(CatalogNameError):
            catalog.create_table(name, SCHEMA)
    with pytest.raises(SchemaNotFoundError, match="shop"):
        catalog.create_table("hops.orders", SCHEMA)
    with pytest.raises(CatalogNameTakenError, match=r"shop\.orders"):
        catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(CatalogNameTakenError):
        catalog.create_schema("shop")
    with pytest.raises(CatalogTableNotFoundError):
        catalog.table("shop.order")


def test_a_table_that_could_not_be_made_has_no_name(catalog: Catalog) -> None:
    with pytest.raises(tahoe.errors.DeltaError):
        catalog.create_table("shop.orders", SCHEMA, partition_by=["missing"])
    catalog.create_table("shop.orders", SCHEMA)


def test_a_dropped_name_leaves_the_files(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    catalog.drop_table("shop.orders")
    assert catalog.tables() == []
    log = Path(made.url.removeprefix("file://")) / "_delta_log"
    assert len(list(log.glob("*.json"))) == 2


def test_names_have_no_capitals_and_can_be_changed(catalog: Catalog) -> None:
    """As in Spark and in Unity."""
    made = catalog.create_table("Shop.Orders", SCHEMA)
    catalog.create_schema("Archive")
    catalog.create_table("archive.other", SCHEMA)
    catalog.rename_table("SHOP.orders", "archive.Orders_2025")
    assert [entry.name for entry in catalog.tables()] == ["archive.orders_2025", "archive.other"]
    assert catalog.table("ARCHIVE.ORDERS_2025").url == made.url
    with catalog.transaction() as changes:
        changes.table("Archive.Orders_2025").append(rows(1))
    assert ids(made) == [1]
    with pytest.raises(CatalogNameTakenError):
        catalog.rename_table("archive.other", "archive.orders_2025")


def test_a_schema_with_tables_is_dropped_with_them_or_not_at_all(catalog: Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(SchemaNotEmptyError, match=r"shop\.orders"):
        catalog.drop_schema("shop")
    assert catalog.schemas() == ["shop"]
    catalog.drop_schema("SHOP", cascade=True)
    assert (catalog.schemas(), catalog.tables()) == ([], [])
    with pytest.raises(SchemaNotFoundError):
        catalog.drop_schema("shop")


def test_a_database_that_is_none_or_newer_is_told(catalog: Catalog, url: str) -> None:
    for wrong in ("lake.db", "nothing://x", "mysql+nothing://x", "sqlite://", "sqlite:///:memory:"):
        with pytest.raises(CatalogUrlError):
            Catalog(wrong)
    with catalog._begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerCatalogError, match="9999"):
        Catalog(url)


# --- clones and folders


@pytest.mark.parametrize("shallow", [True, False])
@pytest.mark.parametrize("replace", [True, False])
def test_a_clone_of_a_managed_table_is_not_managed(
    catalog: Catalog, tmp_path: Path, shallow: bool, replace: bool
) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    target = tahoe.Table(tmp_path / "clone")
    if replace:
        target.append(rows(7))
    made.clone(tmp_path / "clone", shallow=shallow, replace=replace)
    target.append(rows(2))
    assert ids(target) == [1, 2]
    assert "catalogManaged" not in supported_features(target.snapshot().protocol)
    assert not any("unitycatalog" in name for name in target.properties)
    assert ids(made) == [1]


@pytest.mark.parametrize("place", ["orders/of", "orders", ""])
def test_tables_are_not_in_folders_of_others(catalog: Catalog, tmp_path: Path, place: str) -> None:
    """VACUUM of the one would delete files of the other."""
    catalog.create_table("shop.orders", SCHEMA, location=str(tmp_path / "places" / "orders"))
    with pytest.raises(CatalogNameError):
        catalog.create_table("shop.inner", SCHEMA, location=str(tmp_path / "places" / place))
    catalog.create_table("shop.beside", SCHEMA, location=str(tmp_path / "places" / "orders2"))
    assert [entry.name for entry in catalog.tables()] == ["shop.beside", "shop.orders"]


def test_commits_that_are_not_published_can_be_compacted_and_checkpointed(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Publishing, "committed", lambda *_: None)
    made = catalog.create_table("shop.orders", SCHEMA)
    for number in range(3):
        made.append(rows(number))
    made.compact_logs(0, 3)
    made.append(rows(3))
    assert made.create_checkpoint() == 4
    assert ids(catalog.table("shop.orders")) == [0, 1, 2, 3]


def test_a_new_table_says_in_its_log_that_it_is_managed(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Publishing, "committed", lambda *_: None)
    made = catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(CatalogManagedTableError):
        tahoe.Table(made.url).to_arrow()


# --- the database


def test_the_migrations_make_the_tables_that_are_declared(tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path}/lake.db").begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


def test_an_older_database_is_upgraded_and_keeps_its_names(url: str, tmp_path: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with sa.create_engine(url).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql("INSERT INTO schemas (id, name) VALUES ('1', 'shop')")
    catalog = Catalog(url, root=str(tmp_path / "lake"))
    assert catalog.schemas() == ["shop"]
    catalog.create_table("shop.orders", SCHEMA).append(rows(1))
    assert ids(catalog.table("shop.orders")) == [1]
