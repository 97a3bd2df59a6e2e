"""Processes that work on one table, and what must be true of the table afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import tahoe
from tahoe.storage.background import finish_background
from tahoe.table.verify.check import check_version
from tahoe.table.verify.findings import Severity

# A table's url and storage options, or those of a catalog.
Place = tuple[str, Mapping[str, str]]


def make(place: Place, rows: int) -> tahoe.Table:
    """A table of one file, with a row for each delete."""
    ids, properties = pa.table({"id": list(range(rows))}), {"delta.enableDeletionVectors": "true"}
    if is_catalog(place):
        catalog = tahoe.Catalog(place[0], root=place[1]["root"])
        catalog.create_schema("s")
        catalog.create_table("s.t", ids.schema, properties=properties)
    table = opened(place)
    table.append(ids, properties=None if is_catalog(place) else properties)
    finish_background()
    return table


def opened(place: Place) -> tahoe.Table:
    return tahoe.Catalog(place[0]).table("s.t") if is_catalog(place) else tahoe.Table(*place)


def is_catalog(place: Place) -> bool:
    """Whether a place is the database of a catalog, with the folder for its tables."""
    return "root" in place[1]


@dataclass(frozen=True)
class Worker:
    """A process, and the file that it writes its commits to."""

    role: str
    process: subprocess.Popen[str]
    output: Path

    def acknowledged(self) -> list[tuple[int, str]]:
        """The commits that it has told of, but for a line that was cut off."""
        lines = [line.split(" ") for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(int(version), row.strip()) for version, row in lines]

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it had to complain of."""
        _, complaint = self.process.communicate()
        return self.process.returncode, complaint


def start(role: str, place: Place, number: int, count: int, home: Path) -> Worker:
    command = [
        sys.executable,
        "-m",
        "tests.processes.worker",
        role,
        place[0],
        json.dumps(place[1]),
        str(number),
        str(count),
    ]
    output = home / f"worker-{number}.txt"
    with output.open("w") as told:
        return Worker(role, subprocess.Popen(command, stdout=told, stderr=subprocess.PIPE, text=True), output)


def check_all(table: tahoe.Table, told: list[tuple[int, str]]) -> dict[int, str]:
    """Every acknowledged commit is there under its version, and nothing is broken. Returns what each version did."""
    made = {entry["version"]: entry.get("userMetadata") for entry in table.history()}
    assert [(version, row) for version, row in told if made[version] != row] == []
    assert [finding for finding in check_version(table.snapshot()) if finding.severity is Severity.ERROR] == []
    return {version: row for version, row in made.items() if row is not None}
