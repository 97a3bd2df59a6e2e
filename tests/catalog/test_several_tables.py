"""Transactions over several tables of a catalog, and reads of one moment: with a database, and with a server of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.catalog.catalog import Catalog
from tahoe.catalog.server.service import Service
from tahoe.errors import (
    CatalogTableNotFoundError,
    DeltaConcurrentModificationException,
    OperationNotAllowedError,
    StorageRefusedError,
    TableNotManagedError,
    TransactionClosedError,
    TransactionConflictError,
)
from tahoe.storage.background import finish_background
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tests.catalog.serving import listening

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: tahoe.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture(params=["sqlite", "postgresql", "server of sqlite", "server of postgresql"])
def place(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> tuple[str, str]:
    """Whether there is a server, and the url of the database."""
    server, _, kind = request.param.rpartition(" of ")
    return server, new_database(kind)


@pytest.fixture
def direct(place: tuple[str, str], tmp_path: Path, catalog: Catalog) -> Catalog:  # noqa: ARG001 - it makes the schema
    """The same catalog by its database."""
    return Catalog(place[1], root=str(tmp_path / "lake"))


@pytest.fixture
def catalog(place: tuple[str, str], tmp_path: Path) -> Iterator[Catalog]:
    server, url, root = *place, str(tmp_path / "lake")
    if server:
        with listening(Service(url, name="lake", root=root, needs_token=False)) as at:
            found = Catalog(at)
            found.create_schema("shop")
            yield found
            finish_background()
    else:
        found = Catalog(url, root=root)
        found.create_schema("shop")
        yield found


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


def test_a_block_goes_on_from_what_earlier_ones_have_read(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the commits since, of others too, and no log from its beginning."""
    tables = [catalog.create_table(f"shop.{name}", SCHEMA) for name in ("orders", "stock", "read")]
    loaded = list[str]()

    def counted(log: Log, *given: Any) -> Snapshot:
        loaded.append(log.url)
        return load_snapshot(log, *given)

    def block(number: int) -> None:
        with catalog.transaction() as changes:
            for name in ("orders", "stock"):
                changes.table(f"shop.{name}").append(rows(number))
            assert ids(changes.table("shop.read")) == [*range(10, 10 + number)]

    monkeypatch.setattr("tahoe.table.versions.table_reader.load_snapshot", counted)
    monkeypatch.setattr("tahoe.table.commit.post_commit_hooks.load_snapshot", counted)
    block(0)
    finish_background()  # publishes
    assert set(loaded) == {table.url for table in tables}
    tables[2].append(rows(10))
    loaded.clear()
    for number in (1, 2):
        block(number)
        finish_background()
        tables[2].append(rows(10 + number))
    assert loaded == []
    assert [ids(table) for table in tables] == [[0, 1, 2], [0, 1, 2], [10, 11, 12]]


def test_a_table_that_is_not_made_leaves_no_files(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(KeyError), catalog.new_table("shop.made") as (_, url):
        folder = Path(url.removeprefix("file://")) / "p=1"
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(b"rows")
        raise KeyError
    assert list((tmp_path / "lake").iterdir()) == []
    made = catalog.create_table("shop.made", SCHEMA)
    made.append(rows(1))
    assert ids(catalog.table("shop.made")) == [1]


def test_what_a_block_has_undone_is_not_known_to_the_next_one(catalog: Catalog) -> None:
    orders = catalog.create_table("shop.orders", SCHEMA)
    with pytest.raises(KeyError), catalog.transaction() as changes:
        changes.table("shop.orders").append(rows(1))
        assert ids(changes.table("shop.orders")) == [1]
        raise KeyError
    orders.append(rows(2))
    for number in (3, 4):
        with catalog.transaction() as changes:
            changes.table("shop.orders").append(rows(number))
            assert ids(changes.table("shop.orders")) == [*range(2, number + 1)]


def test_reads_of_a_transaction_see_one_moment(catalog: Catalog) -> None:
    orders, stock = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("orders", "stock"))
    orders.append(rows(1))
    with catalog.transaction() as changes:
        stock.append(rows(10))
        catalog.publish("shop.stock")
        assert (ids(changes.table("shop.orders")), ids(changes.table("shop.stock"))) == ([1], [])


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


def test_a_block_finds_the_tables_of_its_beginning(catalog: Catalog, direct: Catalog) -> None:
    """Whatever names are made, changed and given to others meanwhile."""
    for name in ("kept", "moved", "swapped", "a,b", "same"):
        catalog.create_table(f"shop.{name}", SCHEMA).append(rows(len(name)))
    catalog.create_schema("other")
    catalog.create_table("other.kept", SCHEMA).append(rows(99))
    with catalog.transaction() as changes:
        catalog.table("shop.kept").append(rows(5))
        catalog.create_table("shop.later", SCHEMA)
        direct.rename_table("shop.moved", "shop.away")
        direct.rename_table("shop.swapped", "shop.moved")
        direct.rename_table("shop.same", "shop.swapped")
        found = {name: ids(changes.table(name)) for name in ("shop.kept", "shop.a,b", "other.kept", "SHOP.moved")}
        assert found == {"shop.kept": [4], "shop.a,b": [3], "other.kept": [99], "SHOP.moved": [5]}
        assert ids(changes.table("shop.swapped")) == [7]
        for missing in ("shop.later", "shop.away", "shop", "kept", "shop.kep", "shop.kept ", "nowhere.kept"):
            with pytest.raises(CatalogTableNotFoundError):
                changes.table(missing)
    with catalog.transaction() as changes:
        assert ids(changes.table("shop.moved")) == [7]


def test_a_table_whose_name_is_the_id_of_another_one_is_not_taken_for_it(catalog: Catalog, direct: Catalog) -> None:
    """Whichever of them the database tells first: PostgreSQL moves a row that has changed behind the others."""
    catalog.create_table("shop.orders", SCHEMA)
    table_id, url = direct.located("shop.orders")
    catalog.create_table(f"shop.{table_id}", SCHEMA).append(rows(99))
    for number in range(3):
        catalog.table("shop.orders").append(rows(number))
        other_id, other_url = direct.located(f"shop.{table_id}")
        with catalog.transaction() as changes:
            found = [changes.table_with(each) for each in (table_id, other_id)]
            assert [None if table is None else table.url for table in found] == [url, other_url]
            with pytest.raises(CatalogTableNotFoundError):
                changes.table(f"shop.orders {table_id}")


@pytest.mark.parametrize("change", ["dropped", "made again", "given back"])
def test_a_table_that_is_gone_since_the_beginning_of_a_block_is_not_another_one(
    catalog: Catalog, direct: Catalog, change: str
) -> None:
    catalog.create_table("shop.orders", SCHEMA).append(rows(1))
    moment, stack = catalog.snapshot(), catalog.transaction()
    changes = stack.__enter__()
    if change == "given back":
        direct.release_table("shop.orders")
    else:
        catalog.drop_table("shop.orders")
    if change == "made again":
        catalog.create_table("shop.orders", SCHEMA).append(rows(2))
    with pytest.raises(TransactionConflictError, match=r"shop\.orders.*dropped, or given back") as caught:
        changes.table("shop.orders")
    assert "run the block again" in str(caught.value)
    with pytest.raises(TableNotManagedError):
        moment.table("shop.orders")
    stack.__exit__(None, None, None)


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
    assert (ids(made), changes.written) == ([1], [])


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
