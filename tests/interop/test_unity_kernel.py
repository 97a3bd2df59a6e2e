"""Delta Kernel's own Unity client (`UCCatalogManagedClient`) against `tahoe catalog serve`, over both interfaces that it
knows: it makes tables, reads them, commits to them and publishes, in turn with tahoe.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import tahoe
from tests.catalog.commands import fine, serving
from tests.interop.reference import JARS, ROOT, check_installed

SPARK = ROOT / ".venv-reference" / "lib"
PROGRAM = Path(__file__).with_name("java") / "KernelOverUnity.java"

Ask = Callable[..., str]


@pytest.fixture(autouse=True)
def installed() -> None:
    check_installed()


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path}/lake.db"
    tahoe.Catalog(found, root=str(tmp_path / "lake")).create_schema("shop")
    return found


@contextmanager
def kernel(kind: str, url: str, root: Path) -> Iterator[Ask]:
    """Delta Kernel, which answers lines of words."""
    token = fine("token", url, "ada").strip()
    fine("grant", url, "ada", "ADMIN")
    (jars,) = SPARK.glob("python*/site-packages/pyspark/jars")
    with serving(url, "--root", str(root)) as (_, at):
        command = ["java", "-cp", f"{JARS}/*:{jars}/*", str(PROGRAM), kind, at, token]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(*words: object) -> str:
            print(*words, file=process.stdin, flush=True)
            for line in process.stdout or ():
                if line.startswith("> "):
                    return line[2:].strip()
            pytest.fail(process.stderr.read() if process.stderr else "")

        try:
            yield ask
        finally:
            process.communicate(timeout=30)


@pytest.mark.parametrize("kind", ["commits", "delta"])
def test_the_kernel_and_tahoe_commit_in_turn(kind: str, url: str, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    catalog = tahoe.Catalog(url, root=str(root))
    orders = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    orders.append(pa.table({"id": [1, 2]}))
    name = ("lake.shop.orders", catalog.located("shop.orders")[0], orders.url)
    with kernel(kind, url, root) as ask:
        assert ask("read", *name) == "1 1,2"
        assert ask("append", *name, 3) == "2"
        assert sorted(orders.to_arrow()["id"].to_pylist()) == [1, 2, 3]
        orders.delete("id = 1")
        assert ask("read", *name) == "3 2,3"
        with catalog.transaction() as changes:
            changes.table("shop.orders").append(pa.table({"id": [4]}))
        assert ask("append", *name, 5) == "5"
        assert ask("publish", *name) == "5"
        assert ask("append", *name, 6) == "6"
        assert ask("read", *name) == "6 2,3,4,5,6"
    assert sorted(orders.to_arrow()["id"].to_pylist()) == [2, 3, 4, 5, 6]
    assert [entry["version"] for entry in orders.history()] == [6, 5, 4, 3, 2, 1, 0]


def test_the_kernel_makes_a_table(url: str, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with kernel("delta", url, root) as ask:
        made = ask("create", "lake.shop.made")
        name = ("lake.shop.made", *made.split(" "))
        assert ask("append", *name, 1) == "1"
        table = tahoe.Catalog(url).table("shop.made")
        table.append(pa.table({"id": [2]}))
        assert ask("read", *name) == "2 1,2"
    assert table.snapshot().metadata.configuration["io.unitycatalog.tableId"] == name[1]
