"""Storage servers on loopback: S3 by moto, versitygw or SeaweedFS, Azure by Azurite, HDFS by its own. Each is a context
that starts its process and stops it.

Used by the contract suite, and by any test that wants a table on an object store. The variable TAHOE_S3_SERVER says
which S3 server the tests meet.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

START_SECONDS_MAX = 60
REPOSITORY = Path(__file__).parents[2]
AZURITE = REPOSITORY / ".cache" / "azurite"
BUCKET = "lake-house"

# The S3 server of this run: moto, versitygw or seaweedfs. moto keeps everything in memory and takes any credentials.
S3_SERVER = os.environ.get("TAHOE_S3_SERVER", "moto")
S3_KEY, S3_SECRET, S3_REGION = "somebody", "secret-of-somebody", "us-east-1"

# The account that every Azurite has; its key is in Azure's documentation.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class NotInstalledError(Exception):
    """The server's program cannot be had here."""


class ServerProcess:
    """The process of a server, which a test may kill and start again.

    Args:
        port: open when the server is there.
        home: the working directory.
        ready: a file by which the server says that it is ready.
    """

    def __init__(self, command: Sequence[str], port: int, home: Path | None = None, ready: Path | None = None) -> None:
        self._command, self._port, self._home, self._ready = command, port, home or Path(tempfile.gettempdir()), ready
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed by `stop`
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait until it is ready."""
        self._process = subprocess.Popen(self._command, stdout=self._output, stderr=self._output, cwd=self._home)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                is_open = probe.connect_ex(("127.0.0.1", self._port)) == 0
                if is_open and (self._ready is None or self._ready.exists()):
                    return
            time.sleep(0.05)
        self._output.seek(0)
        raise RuntimeError(f"{self._command!r} did not start: {self._output.read().decode(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        self._output.close()


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: the url of its bucket, and what opens it."""

    url: str
    options: dict[str, str]
    endpoint: str


@contextmanager
def s3_server(kind: str = S3_SERVER) -> Iterator[Server]:
    with s3_server_to_kill(kind) as (server, _):
        yield server


@contextmanager
def s3_server_to_kill(kind: str = S3_SERVER) -> Iterator[tuple[Server, ServerProcess]]:
    """An S3 server and its process. What moto has is gone when it is killed.

    Raises:
        NotInstalledError: the server is not built.
    """
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        _running(_S3_COMMANDS[kind](Path(home), port), port) as process,
    ):
        server = Server(f"s3://{BUCKET}", s3_options(endpoint), endpoint)
        make_bucket(server, BUCKET)
        yield server, process


def s3_options(endpoint: str) -> dict[str, str]:
    return {
        "endpoint": endpoint,
        "aws_access_key_id": S3_KEY,
        "aws_secret_access_key": S3_SECRET,
        "region": S3_REGION,
    }


def hadoop_options(server: Server) -> dict[str, str]:
    """The options of a server in Hadoop's words."""
    return {
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.endpoint.region": S3_REGION,
        "fs.s3a.access.key": S3_KEY,
        "fs.s3a.secret.key": S3_SECRET,
        "fs.s3a.path.style.access": "true",
    }


def s3_client(server: Server) -> Any:
    """Amazon's own client, for what obstore has no call for."""
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=S3_KEY,
        aws_secret_access_key=S3_SECRET,
        region_name=S3_REGION,
        config=Config(s3={"addressing_style": "path"}, retries={"mode": "standard", "max_attempts": 8}),
    )


def make_bucket(server: Server, name: str) -> None:
    s3_client(server).create_bucket(Bucket=name)


def _moto(_: Path, port: int) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("moto_server.py")), "-H", "127.0.0.1", "-p", str(port)]


def _versitygw(home: Path, port: int) -> list[str]:
    """Objects are files in a folder, and their metadata extended attributes."""
    flags = ["--quiet", "--port", f"127.0.0.1:{port}", "--access", S3_KEY, "--secret", S3_SECRET]
    return [_built("versitygw", "versitygw"), *flags, "--region", S3_REGION, "posix", str(home)]


def _seaweedfs(home: Path, port: int) -> list[str]:
    """A master, a volume server, a filer and the S3 gateway in one process, each with a port and one for gRPC."""
    identity = {
        "name": "admin",
        "credentials": [{"accessKey": S3_KEY, "secretKey": S3_SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (home / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = [
        flag
        for part in ("master", "volume", "filer", "s3")
        for flag in (
            f"-{part}.port={port if part == 's3' else _free_port()}",
            f"-{part}.port.grpc={_free_port()}",
        )
    ]
    flags = [
        f"-dir={home}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.telemetry.url=",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=200",
        "-s3",
        f"-s3.config={home / 's3.json'}",
        "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    return [_built("seaweedfs", "weed"), "server", *flags, *ports]


_S3_COMMANDS = {"moto": _moto, "versitygw": _versitygw, "seaweedfs": _seaweedfs}


def _built(server: str, program: str) -> str:
    folder = REPOSITORY / ".cache" / server
    if not (folder / "installed").exists():
        raise NotInstalledError(f"{server} is not built: make .cache/{server}/installed")
    return str(folder / program)


@contextmanager
def azure_server() -> Iterator[Server]:
    """
    Raises:
        NotInstalledError: Azurite is not there and cannot be fetched.
    """
    program = _install_azurite()
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    flags = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with _running([program, *flags, "--blobHost", "127.0.0.1", "--blobPort", str(port)], port):
        _create_container(endpoint)
        options = {
            "azure_storage_account_name": AZURE_ACCOUNT,
            "azure_storage_account_key": AZURE_KEY,
            "endpoint": endpoint,
        }
        yield Server(f"az://{BUCKET}", options, endpoint)


@contextmanager
def hdfs_server(jars: Sequence[str], home: Path) -> Iterator[str]:
    """A namenode and a datanode; the url of their root.

    Args:
        jars: of requirements/hdfs.pom.xml.
        home: where they keep their data, and say that they are ready.
    """
    port, ready = _free_port(), home / "ready.xml"
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else "java"
    manager = [java, "-Xmx512m", "-cp", os.pathsep.join(jars), "org.apache.hadoop.test.MiniDFSClusterManager"]
    flags = ["-format", "-datanodes", "1", "-nnport", str(port), "-writeConfig", str(ready)]
    with _running([*manager, *flags], port, home, ready):
        yield f"hdfs://127.0.0.1:{port}"


def _install_azurite() -> str:
    if shutil.which("npm") is None:
        raise NotInstalledError("Node.js with npm is not installed")
    AZURITE.parent.mkdir(exist_ok=True)
    with open(AZURITE.with_suffix(".lock"), "w") as lock:  # several test processes may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([Path(__file__).with_name("install_azurite.sh"), AZURITE], capture_output=True, text=True)
    if done.returncode:
        raise NotInstalledError(f"npm could not install it: {done.stderr.strip()[-300:]}")
    return str(AZURITE / "node_modules" / ".bin" / "azurite-blob")


def _create_container(endpoint: str) -> None:
    """One request with the shared key, which obstore has no call for."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    signature = base64.b64encode(hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": version, "Authorization": f"SharedKey {AZURE_ACCOUNT}:{signature}"}
    urllib.request.urlopen(
        urllib.request.Request(f"{endpoint}/{BUCKET}?restype=container", headers=headers, method="PUT")
    ).close()


@contextmanager
def _running(
    command: Sequence[str], port: int, home: Path | None = None, ready: Path | None = None
) -> Iterator[ServerProcess]:
    process = ServerProcess(command, port, home, ready)
    try:
        process.start()
        yield process
    finally:
        process.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
