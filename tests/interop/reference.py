"""The reference implementation, asked from our tests: `reference.sql(...)`, `.read(...)`, `.write(...)`,
`.create(...)`.

The process behind it is `reference_server.py` in an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.interop.queries import Query

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-reference" / "bin" / "python"
JARS = ROOT / ".cache" / "reference-jars"


class ReferenceFailure(Exception):
    """The reference refused a request. `condition` is its error's name, where it has one."""

    def __init__(self, message: str, condition: str | None) -> None:
        super().__init__(message)
        self.condition = condition


def check_installed() -> None:
    """Skip the test if `make interop` has not fetched everything, or fail it where the run requires it."""
    if (ROOT / ".venv-reference" / "installed").exists() and (JARS / "installed").exists():
        return
    if os.environ.get("TAHOE_REFERENCE") == "required":
        pytest.fail("the reference implementation is not installed, and this run requires it: make interop")
    pytest.skip("NOT RUN: the reference implementation is not installed: make interop")


class Reference:
    """One running reference. Close it.

    Args:
        jars: more of them, with classes of a user.
        settings: of its Spark context.
    """

    def __init__(self, jars: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> None:
        self.scratch = tempfile.TemporaryDirectory(prefix="reference-")
        self.log = Path(self.scratch.name, "server.log")
        self.process = subprocess.Popen(
            [
                str(PYTHON),
                str(Path(__file__).with_name("reference_server.py")),
                str(JARS),
                self.scratch.name,
                json.dumps({"jars": list(jars), "settings": dict(settings or {})}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("wb"),
            text=True,
            cwd=self.scratch.name,
            env={**os.environ, "PYSPARK_PYTHON": str(PYTHON), "PYTHONPATH": str(ROOT)},
        )
        self.spark_version: str = self._receive()["ready"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.scratch.cleanup()

    def run(self, *statements: str) -> None:
        """Run SQL statements for what they do."""
        self._ask(op="run", statements=statements)

    def sql(self, text: str) -> pa.Table:
        """The rows that a query or a command answers."""
        return self._table(self._ask(op="sql", text=text))

    def read(self, path: str | Path, *, columns: Sequence[str] | None = None, **options: str) -> pa.Table:
        """The rows of the table at a path. `columns` are expressions; options are those of its reader, such as
        versionAsOf.
        """
        return self._table(self._ask(op="read", path=str(path), options=options, columns=columns))

    def write(
        self,
        path: str | Path,
        rows: pa.Table,
        *,
        mode: str = "append",
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Write rows through its DataFrame writer."""
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as folder:
            pq.write_table(rows, f"{folder}/rows.parquet", store_schema=False)
            self._ask(
                op="write",
                path=str(path),
                parquet=folder,
                mode=mode,
                partition_by=list(partition_by),
                options=dict(options or {}),
            )

    def create(
        self,
        path: str | Path,
        columns: Sequence[Mapping[str, Any]],
        *,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a table with its Python builder, which knows generated and identity columns.

        A column is name, type and any of nullable, generated (an expression), identity and identity_always (start and
        step).
        """
        self._ask(
            op="create",
            path=str(path),
            columns=[dict(column) for column in columns],
            partition_by=list(partition_by),
            cluster_by=list(cluster_by),
            properties=dict(properties or {}),
        )

    def delta_table(self, path: str | Path, call: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Call a method of its `DeltaTable`; see tests/dml/calls.py. Returns the rows that it answers."""
        rows: list[dict[str, Any]] = self._ask(op="delta_table", path=str(path), call=dict(call))["rows"]
        return rows

    def complaint(self, path: str | Path, code: str) -> tuple[str, str] | None:
        """The class and the message of the error that an expression raises; see tests/dml/calls.py."""
        found = self._ask(op="complaint", path=str(path), code=code)["complaint"]
        return None if found is None else (found[0], found[1])

    def writes(self, writes: Sequence[Mapping[str, Any]]) -> list[Sequence[str | None] | None]:
        """Run writes, and tell what refused them; see tests/interop/writes.py."""
        refusals: list[Sequence[str | None] | None] = self._ask(op="writes", writes=list(map(dict, writes)))["refusals"]
        return refusals

    def stream(self, query: Query, one_batch: bool = False) -> None:
        """Run a streaming query until it ends; see tests/interop/queries.py."""
        self._ask(op="stream", query=query.to_json(), one_batch=one_batch)

    @contextmanager
    def settings(self, settings: Mapping[str, str | None]) -> Iterator[None]:
        """Session settings for a while."""
        before = self._ask(op="set", settings=dict(settings))["before"]
        try:
            yield
        finally:
            self._ask(op="set", settings=before)

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the reference ended:\n{self.log.read_text(errors='replace')[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ReferenceFailure(answer["error"], answer.get("condition"))
        return answer

    def _table(self, answer: Mapping[str, Any]) -> pa.Table:
        path = Path(answer["arrow"])
        with pa.OSFile(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        path.unlink()
        return table
