"""JSON for programs: one spelling of names, numbers as numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tahoe
from tahoe import cli
from tahoe.table.inspection.inspector import INSPECTIONS


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = tahoe.Table(tmp_path / "t")
    table.append(
        pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]}),
        partition_by=["day"],
        properties={"delta.appendOnly": "false"},
    )
    table.append(pa.table({"id": [4], "day": ["a"]}))
    table.tag("first", 0)
    return str(tmp_path / "t")


def run_json(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(cli.app, [*arguments, "--json"], catch_exceptions=False).stdout)


def names_in(value: Any, *, data: tuple[str, ...]) -> Iterator[str]:
    """The names in a JSON document, without those below `data`, which the table or the protocol gave."""
    if isinstance(value, list):
        for item in value:
            yield from names_in(item, data=data)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            if name not in data:
                yield from names_in(item, data=data)


def test_names_in_json_are_spelled_in_one_way(path: str) -> None:
    data = (
        "operations",
        "operation_parameters",
        "operation_metrics",
        "properties",
        "partition_values",
        "statistics",
        "removed_bytes",
        "writers",
    )
    inspections = [["inspect", what] for what in INSPECTIONS if what != "statistics"]
    commands = [
        ["show"],
        ["history"],
        ["tags"],
        ["files"],
        ["check"],
        ["analyze"],
        ["optimize", "--dry-run"],
        ["vacuum", "--dry-run"],
    ]
    for command in [*commands, ["repair", "--dry-run"], ["report"], *inspections]:
        names = set(names_in(run_json(*command, path), data=data))
        assert not {name for name in names if not re.fullmatch("[a-z][a-z0-9_]*", name)}, command


def test_metrics_are_numbers_in_json(path: str) -> None:
    for command in (["history"], ["inspect", "history"]):
        assert run_json(*command, path)[-1]["operation_metrics"]["numOutputRows"] == 3
