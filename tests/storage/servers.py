"""Storage servers on loopback: S3 by moto, Azure by Azurite, HDFS by its own. Each is a context that starts its process
and stops it.

Used by the contract suite, and by any test that wants a table on an object store.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
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

START_SECONDS_MAX = 60
REPOSITORY = Path(__file__).parents[2]
AZURITE = REPOSITORY / ".cache" / "azurite"
BUCKET = "lake-house"

# The account that every Azurite has; its key is in Azure's documentation.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class NotInstalledError(Exception):
    """The server's program cannot be had here."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: the url of its bucket, and what opens it."""

    url: str
    options: dict[str, str]
    endpoint: str


@contextmanager
def s3_server() -> Iterator[Server]:
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with _running(
        [sys.executable, str(Path(__file__).with_name("moto_server.py")), "-H", "127.0.0.1", "-p", str(port)], port
    ):
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        options = {
            "endpoint": endpoint,
            "aws_access_key_id": "somebody",
            "aws_secret_access_key": "secret",
            "region": "us-east-1",
        }
        yield Server(f"s3://{BUCKET}", options, endpoint)


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
def _running(command: Sequence[str], port: int, home: Path | None = None, ready: Path | None = None) -> Iterator[None]:
    """A process, when its port is open, and when the file is there by which it says that it is ready."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=home or tempfile.gettempdir())
        try:
            _wait(process, port, output, ready)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(
    process: subprocess.Popen[bytes], port: int, output: tempfile._TemporaryFileWrapper[bytes], ready: Path | None
) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0 and (ready is None or ready.exists()):
                return
        time.sleep(0.05)
    output.seek(0)
    raise RuntimeError(f"{process.args!r} did not start: {output.read().decode(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
