"""A catalog in a database: names, commits that it ratifies, and transactions over several tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

import tahoe
from tahoe.catalog.catalog import Catalog, _Publishing
from tahoe.catalog.database import MIGRATIONS, open_database
from tahoe.catalog.registration import TABLE_ID
from tahoe.catalog.tables_of_database import METADATA
from tahoe.errors import (
    CatalogManagedTableError,
    CatalogNameError,
    CatalogNameTakenError,
    CatalogTableNotFoundError,
    CatalogUrlError,
    DeltaConcurrentModificationException,
    NewerCatalogError,
    OperationNotAllowedError,
    SchemaNotEmptyError,
    SchemaNotFoundError,
    StorageRefusedError,
    TableNotFoundError,
    TransactionClosedError,
    TransactionConflictError,
)
from tahoe.protocol.configuration.features import supported_features
from tahoe.storage.background import finish_background

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


# --- transactions


def test_all_tables_of_a_transaction_change_at_once(catalog: Catalog) -> None:
    orders, stock = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("orders", "stock"))
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        changes.table("shop.stock").append(rows(10))
        changes.table("shop.orders").append(rows(2))
        assert ids(changes.table("shop.orders")) == [1, 2], "it sees what it has written"
        assert ids(orders) == ids(stock) == [], "others do not"
    assert (ids(orders), ids(stock)) == ([1, 2], [10])


def test_a_transaction_that_fails_leaves_nothing(catalog: Catalog) -> None:
    orders = catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(KeyError), catalog.transaction() as changes:
        changed = changes.table("shop.orders")
        changed.append(rows(1))
        raise KeyError
    assert (ids(orders), orders.version) == ([], 0)
    staged = Path(orders.url.removeprefix("file://")) / "_delta_log" / "_staged_commits"
    catalog.publish("shop.orders")
    assert len(list(staged.glob(f"{1:020}.*"))) == 0
    with pytest.raises(TransactionClosedError):
        changed.to_arrow()


def test_reads_of_a_transaction_see_one_moment(catalog: Catalog) -> None:
    orders, stock = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("orders", "stock"))
    orders.append(rows(1))
    with catalog.transaction() as changes:
        stock.append(rows(10))
        catalog.publish("shop.stock")
        assert (ids(changes.table("shop.orders")), ids(changes.table("shop.stock"))) == ([1], [])


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


def test_a_snapshot_is_of_one_moment(catalog: Catalog) -> None:
    names = ["shop.a", "shop.b"]
    for name in names:
        catalog.create_table(name, SCHEMA)
    moment = catalog.snapshot()
    with catalog.transaction() as changes:
        for name in names:
            changes.table(name).append(rows(1))
    assert [moment.table(name).count() for name in names] == [0, 0]
    assert [catalog.snapshot().table(name.upper()).count() for name in names] == [1, 1]
    with pytest.raises(CatalogTableNotFoundError):
        moment.table("shop.c")


def test_a_transaction_goes_behind_what_does_not_conflict(catalog: Catalog) -> None:
    orders, stock = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("orders", "stock"))
    stock.append(rows(1, 2))
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        changes.table("shop.stock").append(rows(10))
        stock.append(rows(20))
        orders.append(rows(2))
    assert (ids(orders), ids(stock)) == ([1, 2], [1, 2, 10, 20])
    assert [entry["version"] for entry in orders.history()] == [2, 1, 0]


def test_a_conflict_in_one_table_leaves_all_as_they_were(catalog: Catalog) -> None:
    orders, stock = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("orders", "stock"))
    stock.append(rows(1))
    with pytest.raises(DeltaConcurrentModificationException), catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        changes.table("shop.stock").delete("id = 1")
        stock.delete("id = 1")
    assert (ids(orders), ids(stock)) == ([], [])


def test_a_table_that_was_changed_twice_is_not_put_behind_others(catalog: Catalog) -> None:
    orders = catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(TransactionConflictError, match=r"shop\.orders.*2 times") as caught:  # noqa: SIM117
        with catalog.transaction() as changes:
            changes.table("shop.orders").append(rows(1))
            changes.table("shop.orders").append(rows(2))
            orders.append(rows(3))
    assert "run the block again" in str(caught.value)
    assert ids(orders) == [3]


@pytest.mark.parametrize("serializable", [False, True])
def test_write_skew_is_refused_where_that_is_asked_for(catalog: Catalog, serializable: bool) -> None:
    """Each of two blocks reads what the other one writes."""
    one, other = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("one", "other"))
    first, second = (catalog.transaction(serializable=serializable) for _ in range(2))
    a, b = first.__enter__(), second.__enter__()
    for block, read, written in ((a, "one", "other"), (b, "other", "one")):
        if not ids(block.table(f"shop.{read}")):
            block.table(f"shop.{written}").append(rows(1))
    first.__exit__(None, None, None)
    if serializable:
        with pytest.raises(TransactionConflictError, match=r"shop\.other"):
            second.__exit__(None, None, None)
    else:
        second.__exit__(None, None, None)
    assert (ids(one), ids(other)) == ([] if serializable else [1], [1])


def test_checkpoints_wait_until_a_transaction_is_committed(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA, properties={"delta.checkpointInterval": "2"})
    log = Path(made.url.removeprefix("file://")) / "_delta_log"
    with pytest.raises(KeyError), catalog.transaction() as changes:
        for number in range(6):
            changes.table("shop.orders").append(rows(number))
        raise KeyError
    assert not [path.name for path in log.iterdir() if "checkpoint" in path.name]
    assert not list(log.glob(f"{1:020}.*"))
    for number in range(4):
        made.append(rows(number))
    catalog.publish("shop.orders")
    assert ids(catalog.table("shop.orders")) == list(range(4))


@pytest.mark.parametrize("call", ["repair", "drop"])
def test_what_deletes_files_waits_for_the_end_of_a_block(catalog: Catalog, call: str) -> None:
    made = catalog.create_table("shop.orders", SCHEMA, properties={"delta.enableDeletionVectors": "true"})
    made.append(rows(1))
    with catalog.transaction() as changes, pytest.raises(OperationNotAllowedError):
        inside = changes.table("shop.orders")
        inside.repair() if call == "repair" else inside.drop_feature("deletionVectors")
    assert (ids(made), made.version) == ([1], 1)


def test_a_block_that_is_committed_before_its_end_is_published(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        changes.commit()
    finish_background()
    assert [entry.unpublished for entry in catalog.tables()] == [0]
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(2))
        changes.roll_back()
    assert (ids(made), changes.changed) == ([1], [])


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


# --- what cannot be undone


def _log(table: tahoe.Table) -> list[str]:
    folder = Path(table.url.removeprefix("file://")) / "_delta_log"
    return sorted(path.name for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize(
    "describe", [lambda table: table.create_checkpoint(), lambda table: table.compact_logs(0, 2)], ids=["whole", "part"]
)
def test_the_log_does_not_tell_of_a_transaction_that_can_be_undone(
    catalog: Catalog, describe: Callable[[tahoe.Table], object]
) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    with pytest.raises(StorageRefusedError), catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(99))
        describe(changes.table("shop.orders"))
    assert f"{2:020}.json" not in _log(made)
    made.append(rows(2))
    catalog.publish("shop.orders")
    assert ids(catalog.table("shop.orders")) == [1, 2]


@pytest.mark.parametrize(
    "clean",
    [
        lambda table: table.vacuum(0, retention_check=False),
        lambda table: table.erase("id = 1", retention_check=False),
        lambda table: table.cleanup_metadata(),
        lambda table: table.generate(),
    ],
    ids=["vacuum", "erase", "log", "manifests"],
)
def test_a_transaction_deletes_no_files(catalog: Catalog, clean: Callable[[tahoe.Table], object]) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    with pytest.raises(OperationNotAllowedError, match="outside"), catalog.transaction() as changes:
        changes.table("shop.orders").delete("id = 1")
        clean(changes.table("shop.orders"))
    assert ids(catalog.table("shop.orders")) == [1]


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


def test_manifests_wait_until_a_transaction_is_committed(catalog: Catalog) -> None:
    kept = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    made = catalog.create_table("shop.orders", SCHEMA, properties=kept)
    made.append(rows(1))
    manifest = Path(made.url.removeprefix("file://")) / "_symlink_format_manifest" / "manifest"
    before = manifest.read_text()
    with pytest.raises(KeyError), catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(2))
        raise KeyError
    assert manifest.read_text() == before
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(2))
    finish_background()
    assert len(manifest.read_text().splitlines()) == 2


def test_a_transaction_does_not_see_what_others_tell_of_their_versions(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    made.append(rows(1))
    with catalog.transaction() as changes:
        changed = changes.table("shop.orders")
        changed.append(rows(2))
        made.append(rows(3))
        made.compact_logs(0, 2)
        assert ids(tahoe.Table(changed.url, env=changed.env)) == [1, 2]
    assert ids(made) == [1, 2, 3]


# --- the end of a transaction


def test_a_time_shows_all_tables_of_a_transaction_or_none(catalog: Catalog) -> None:
    tables = [catalog.create_table(f"shop.t{number}", SCHEMA) for number in range(3)]
    for times in (1, 3):
        with catalog.transaction() as changes:
            for number in range(3):
                for _ in range(1 + number * times // 2):
                    changes.table(f"shop.t{number}").append(rows(number))
            last = changes.table("shop.t2").version
        newest = [table.history(1)[0] for table in tables]
        assert len({entry["timestamp"] for entry in newest}) == 1
        assert last == tables[2].version
    catalog.publish("shop.t2")
    times_of = [entry["timestamp"] for entry in tables[2].history()]
    assert times_of == sorted(set(times_of), reverse=True)


def test_a_transaction_that_the_user_ends_has_ended(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA)
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        changes.roll_back()
    assert (ids(made), made.version) == ([], 0)
    with catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        changes.commit()
        assert ids(made) == [1]
    changes.roll_back()
    assert ids(made) == [1]
    with pytest.raises(TransactionClosedError):
        changes.table("shop.orders")
    with pytest.raises(TransactionClosedError):
        changes.commit()


def test_a_table_that_was_dropped_meanwhile_is_a_conflict(catalog: Catalog) -> None:
    orders, stock = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("orders", "stock"))
    with pytest.raises(TransactionConflictError, match="dropped"), catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        changes.table("shop.stock").append(rows(1))
        catalog.drop_table("shop.orders")
        catalog.create_table("shop.orders", SCHEMA)
    assert (ids(catalog.table("shop.orders")), ids(stock)) == ([], [])
    staged = Path(orders.url.removeprefix("file://")) / "_delta_log" / "_staged_commits"
    assert not list(staged.glob(f"{1:020}.*"))


def test_a_transaction_is_published_and_described_after_its_end(catalog: Catalog) -> None:
    made = catalog.create_table("shop.orders", SCHEMA, properties={"delta.checkpointInterval": "2"})
    for number in range(4):
        with catalog.transaction() as changes:
            changes.table("shop.orders").append(rows(number))
    finish_background()
    assert [entry.unpublished for entry in catalog.tables()] == [0]
    assert {f"{4:020}.json", f"{4:020}.crc", f"{4:020}.checkpoint.parquet"} <= set(_log(made))


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
