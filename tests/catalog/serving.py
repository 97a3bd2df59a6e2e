"""A server of a catalog in this process, and a client of it."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

import tahoe
from tahoe.catalog.grants import Securable, grant, new_token
from tahoe.catalog.server.app import PREFIX, application
from tahoe.catalog.server.service import Service
from tahoe.protocol.log.actions import Action, Add, CommitInfo, Metadata, Protocol, encode_commit
from tahoe.storage.locations import local_path

WHOLE = Securable(kind="catalog", id="", name="lake")


@dataclass(frozen=True)
class Client:
    """Speaks as one principal."""

    http: TestClient
    token: str | None = None

    def call(self, method: str, path: str, body: Any = None, *, under: str = PREFIX, **query: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        headers |= {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        content = None if body is None else json.dumps(body).encode()
        answer = self.http.request(method, under + path, content=content, params=query, headers=headers)
        return answer.status_code, answer.json()

    def get(self, path: str, **query: Any) -> Any:
        return self._fine(self.call("GET", path, **query))

    def get_body(self, path: str, **body: Any) -> Any:
        return self._fine(self.call("GET", path, body))

    def post(self, path: str, **body: Any) -> Any:
        return self._fine(self.call("POST", path, body))

    def patch(self, path: str, **body: Any) -> Any:
        return self._fine(self.call("PATCH", path, body))

    def delete(self, path: str) -> Any:
        return self._fine(self.call("DELETE", path))

    def refused(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, str]:
        status, told = self.call(method, path, body, **query)
        assert set(told) == {"error_code", "message", "details"}, told
        assert status >= 400
        return status, told["error_code"]

    @staticmethod
    def _fine(found: tuple[int, Any]) -> Any:
        assert found[0] == 200, found
        return found[1]


@dataclass(frozen=True)
class Served:
    """A server with the catalog `lake`."""

    service: Service
    http: TestClient

    @property
    def catalog(self) -> tahoe.Catalog:
        return self.service.catalog

    def client(self, principal: str, *privileges: str, on: Securable = WHOLE) -> Client:
        with self.service.begin() as connection:
            token = new_token(connection, principal)
            for privilege in privileges:
                grant(connection, principal, privilege, on)
        return Client(self.http, token)


def served(folder: Path, **given: Any) -> Served:
    url, root = f"sqlite:///{folder}/lake.db", str(folder / "lake")
    service = Service(url, **{"name": "lake", "root": root, **given})
    http = TestClient(application(service), "http://localhost", raise_server_exceptions=False)
    return Served(service, http)


@contextmanager
def listening(service: Service, wrapped: Callable[[Any], Any] = lambda application: application) -> Iterator[str]:
    """The address of a server on a thread of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listens:
        config = uvicorn.Config(wrapped(application(service)), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listens]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listens.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def appended(timestamp_ms: int, path: str = "part-0.parquet") -> list[Action]:
    """The actions of an append of a file, which need not be there."""
    info = CommitInfo({"operation": "WRITE", "inCommitTimestamp": timestamp_ms, "timestamp": timestamp_ms})
    return [info, Add(path=path, size_bytes=1, modification_time_ms=timestamp_ms)]


def staged(url: str, version: int, actions: Sequence[Action] | bytes, timestamp_ms: int) -> dict[str, Any]:
    """Stage a commit, as a client does; returns the `commit_info` that proposes it."""
    data = actions if isinstance(actions, bytes) else encode_commit(actions)
    folder = Path(local_path(url)) / "_delta_log" / "_staged_commits"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{version:020}.{uuid.uuid4()}.json"
    (folder / name).write_bytes(data)
    return {
        "version": version,
        "timestamp": timestamp_ms,
        "file_name": name,
        "file_size": len(data),
        "file_modification_timestamp": timestamp_ms,
    }


def first_version(url: str, *, features: frozenset[str] = frozenset({"catalogManaged", "inCommitTimestamp"})) -> None:
    """Write the first version of a table."""
    protocol = Protocol(
        reader_version=3, writer_version=7, reader_features=features & {"catalogManaged"}, writer_features=features
    )
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    metadata = Metadata(
        id="1",
        schema_string=json.dumps({"type": "struct", "fields": fields}),
        configuration={"delta.enableInCommitTimestamps": "true"},
    )
    info = CommitInfo({"operation": "CREATE TABLE", "inCommitTimestamp": 1, "timestamp": 1})
    commit = staged(url, 0, [info, protocol, metadata], 1)
    log = Path(local_path(url)) / "_delta_log"
    (log / "_staged_commits" / commit["file_name"]).rename(log / f"{0:020}.json")
