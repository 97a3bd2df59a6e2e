"""The examples of public docstrings: how they are found and run, and the tables that they begin with.

An example has `table`, a table of three rows at `/data/orders`; `rows`, two rows of its columns; `tahoe`, and pyarrow
as `pa`. There is a second table at `/data/plain`, and a folder of Parquet files at `/data/parquet`. `/data` is a folder
of the test.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tahoe

SALES = pa.table({"id": [1, 2, 3], "shop": ["A", "A", "B"], "price": [10, 20, 30]})
NEWS = pa.table({"id": [3, 4], "shop": ["B", "B"], "price": [35, 40]})
PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.feature.v2Checkpoint": "supported",
}

# For the other rings: what users do not call.
NOT_FOR_USERS = {"knowing", "keeping_commits", "snapshot_if_exists", "forget"}


def methods_of(owner: type) -> list[str]:
    """The public methods of a class."""
    names = (name for name in dir(owner) if not name.startswith("_") and name not in NOT_FOR_USERS)
    return [
        name
        for name in names
        if callable(inspect.getattr_static(owner, name)) or inspect.ismethod(getattr(owner, name))
    ]


def begin(folder: Path) -> dict[str, Any]:
    """Make the tables, and return the names that examples use."""
    table = tahoe.Table(folder / "orders")
    table.create(SALES.schema, properties=PROPERTIES)
    table.append(SALES)
    tahoe.Table(folder / "plain").append(SALES)
    (folder / "parquet").mkdir()
    pq.write_table(SALES, folder / "parquet" / "orders.parquet")
    return {"tahoe": tahoe, "pa": pa, "table": table, "rows": NEWS}


def run(owner: type, method: str, names: Mapping[str, Any], folder: Path) -> None:
    """Run the example of a method; its output must be as it is shown."""
    text = inspect.getdoc(getattr(owner, method)) or ""
    example = doctest.DocTestParser().get_doctest(
        text.replace("/data/", f"{folder}/"), dict(names), f"{owner.__name__}.{method}", None, 0
    )
    assert example.examples, "the docstring has no example"
    said: list[str] = []
    done = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert done.failed == 0, "".join(said)
