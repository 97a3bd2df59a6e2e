"""What is particular to object stores: answers that are no proof, answers that never come, credentials, forks."""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from obstore.exceptions import GenericError

import tahoe
from tahoe.errors import (
    CredentialsMissingError,
    ForkedProcessError,
    InvalidOptionError,
    StorageRefusedError,
    StorageUnavailableError,
)
from tahoe.storage import cloud, env, open_store
from tahoe.storage.background import finish_background
from tahoe.storage.cloud import CloudStore, _without_markers
from tahoe.storage.cloud_options import cloud_config, credentials_missing
from tahoe.storage.env import FileInfo, branches
from tests.storage.proxies import proxied
from tests.storage.servers import BUCKET, S3_KEY, S3_SECRET, Server, hadoop_options, s3_client, s3_options

# --- what goes wrong on the way, made by a proxy between obstore and the server


def passed_on(request: BaseHTTPRequestHandler, forward: Callable[[], None]) -> None:
    forward()
    request.send_response(200)
    request.send_header("Content-Length", "0")
    request.send_header("ETag", '"x"')
    request.end_headers()


@pytest.mark.server
def test_vacuum_costs_one_listing_and_one_delete_request_for_every_thousand_files(s3: Server) -> None:
    table = tahoe.Table(f"{s3.url}/vacuumed", s3.options)
    table.append(pa.table({"id": [1]}))
    finish_background()
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda n: table.env.store.put(f"p={n % 7}/stray-{n}", b"x"), range(2050)))
    time.sleep(1)
    seen: list[str] = []
    with proxied(s3, passed_on, seen) as proxy:
        report = tahoe.Table(f"{s3.url}/vacuumed", proxy.options).vacuum(0, retention_check=False, log_history=False)
    assert len(report.files) == 2050
    assert len([r for r in seen if r.startswith("GET") and "list-type=2" in r and "_delta_log" not in r]) == 3
    assert len([r for r in seen if r.startswith("POST") and "delete" in r]) == 3
    assert not [r for r in seen if r.startswith("DELETE")]
    assert table.to_arrow().to_pylist() == [{"id": 1}]


def conflict(request: BaseHTTPRequestHandler, _: Callable[[], None]) -> None:
    """S3: two conditional puts met, and neither has won."""
    request.rfile.read(int(request.headers["Content-Length"]))
    body = b"<Error><Code>ConditionalRequestConflict</Code></Error>"
    request.send_response(409)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def lose_the_answer(request: BaseHTTPRequestHandler, forward: Callable[[], None]) -> None:
    forward()
    request.close_connection = True


def tried_out(server: Server, folder: str) -> CloudStore:
    return CloudStore(f"{server.url}/{folder}", server.options, skips_probe=True)


@pytest.mark.server
def test_a_conflict_that_nobody_won_is_not_a_loss(s3: Server) -> None:
    """Taken for a loss, the version would be skipped: the next writer finds a gap in the log."""
    with proxied(s3, conflict) as server, pytest.raises(StorageUnavailableError, match="does not"):
        tried_out(server, "409").put_if_absent("k", b"1")
    direct = open_store(f"{s3.url}/409", s3.options)
    assert direct.put_if_absent("k", b"2") is True
    with proxied(s3, conflict) as server:
        assert tried_out(server, "409").put_if_absent("k", b"1") is False


@pytest.mark.server
def test_a_put_whose_answer_was_lost_is_never_taken_for_a_success_or_a_stranger(
    s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller must compare: either nobody knows, or the key is there with our own bytes."""
    monkeypatch.setattr(cloud, "RETRY_SECONDS_MAX", 1)
    with proxied(s3, lose_the_answer) as server:
        try:
            told = tried_out(server, "lost").put_if_absent("k", b"mine")
        except StorageUnavailableError:
            told = False
    assert told is False
    assert open_store(f"{s3.url}/lost", s3.options).get("k") == b"mine"


# --- other tools' habits


@pytest.mark.server
def test_objects_that_mark_folders_are_no_files(s3: Server) -> None:
    """Hadoop and consoles leave empty objects `folder/`; seen as files, they would stand in the way of a new table."""
    store = open_store(f"{s3.url}/marked", s3.options)
    for key in ("marked/", "marked/_delta_log/", "marked/_delta_log/_sidecars/"):
        s3_client(s3).put_object(Bucket=BUCKET, Key=key, Body=b"")
    store.put("_delta_log/0.json", b"")
    store.put("_delta_log/_sidecars/x", b"1")
    assert [f.key for f in store.walk()] == ["_delta_log/0.json", "_delta_log/_sidecars/x"]
    assert [branch.keys for branch in branches(store)] == [["_delta_log/0.json", "_delta_log/_sidecars/x"]]
    assert [f.key for f in store.walk("_delta_log/_sidecars")] == ["_delta_log/_sidecars/x"]
    assert [f.key for f in store.list_from("_delta_log")] == ["_delta_log/0.json"]
    assert [f.key for f in store.list_from("_delta_log", "_delta_log/")] == ["_delta_log/0.json"]
    assert list(store.list_from("")) == []


@pytest.mark.server
@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
def test_the_names_of_hadoop_open_the_same_bucket(s3: Server, scheme: str) -> None:
    store = open_store(f"{scheme}{s3.url.removeprefix('s3')}/same", s3.options)
    store.put("k", b"1")
    assert store.url.startswith(f"{scheme}://")
    assert open_store(f"{s3.url}/same", s3.options).get("k") == b"1"


@pytest.mark.server
def test_more_files_than_one_page_are_all_listed(s3: Server) -> None:
    store = open_store(f"{s3.url}/many", s3.options)
    names = [f"_delta_log/{n:020d}.json" for n in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(name, b""), names))
    assert [f.key for f in store.list_from("_delta_log")] == names
    assert [f.key for f in store.list_from("_delta_log", names[2])] == names[3:]
    assert [f.key for f in store.walk()] == names


# --- credentials and settings


@pytest.mark.server
def test_a_missing_bucket_is_an_error_and_not_an_empty_table(s3: Server) -> None:
    store = open_store("s3://no-such-bucket/t", s3.options)
    writes = [lambda: store.put("k", b""), lambda: store.put_if_absent("k", b"")]
    for call in (lambda: list(store.list_from("")), lambda: list(store.walk()), *writes):
        with pytest.raises(StorageUnavailableError) as caught:
            call()
        assert caught.value.parameters["table"] == "s3://no-such-bucket/t"


@pytest.mark.server
def test_a_wrong_key_is_an_error_that_does_not_show_it(azure: Server) -> None:
    options = {**azure.options, "azure_storage_account_key": "d3Jvbmc="}
    store = open_store(f"{azure.url}/t", options)
    for call in (
        lambda: store.get("k"),
        lambda: store.head("k"),
        lambda: list(store.list_from("")),
        lambda: store.put("k", b"1"),
    ):
        with pytest.raises(StorageUnavailableError) as caught:
            call()
        assert "d3Jvbmc=" not in str(caught.value)
    assert "d3Jvbmc=" not in repr(store)


@pytest.mark.server
@pytest.mark.parametrize("with_option", [False, True])
def test_the_environment_gives_what_the_options_do_not(s3: Server, with_option: bool) -> None:
    """In a process of its own, because the environment is read when a bucket is first opened."""
    program = (
        f"from tahoe.storage import open_store; s = open_store('{s3.url}/env'); s.put('k', b'1'); print(s.get('k'))"
    )
    given = {
        "AWS_ACCESS_KEY_ID": S3_KEY,
        "AWS_SECRET_ACCESS_KEY": S3_SECRET,
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }
    program = program.replace("/env'", "/env', {'timeout': '20s'}") if with_option else program
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "b'1'", done.stderr


@pytest.mark.server
def test_settings_in_the_words_of_hadoop_open_a_bucket(s3: Server) -> None:
    options = {
        **hadoop_options(s3),
        "fs.s3a.endpoint": s3.endpoint.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.threads.max": "20",
    }
    options["spark.hadoop.fs.s3a.access.key"] = options.pop("fs.s3a.access.key")
    store = open_store(f"s3a{s3.url.removeprefix('s3')}/hadoop", options)
    store.put("k", b"1")
    assert store.get("k") == b"1"


@pytest.mark.parametrize(
    ("options", "location", "storage", "client"),
    [
        ({"AWS_REGION": "eu-west-1", "timeout": "9s"}, "s3://b", {"region": "eu-west-1"}, {"timeout": "9s"}),
        ({"aws_allow_http": "true"}, "s3://b", {}, {"allow_http": "true"}),
        ({"endpoint": "http://h:1"}, "s3://b", {"endpoint": "http://h:1"}, {"allow_http": "true"}),
        (
            {"endpoint": "http://h:1", "allow_http": "false"},
            "s3://b",
            {"endpoint": "http://h:1"},
            {"allow_http": "false"},
        ),
        ({"fs.s3a.access.key": "a", "fs.s3a.bucket.b.access.key": "b"}, "s3a://b", {"access_key_id": "b"}, {}),
        ({"fs.s3a.access.key": "a", "aws_access_key_id": "own"}, "s3a://b", {"access_key_id": "own"}, {}),
        (
            {"fs.s3a.session.token": "t", "fs.s3a.endpoint.region": "r"},
            "s3://b",
            {"session_token": "t", "region": "r"},
            {},
        ),
        ({"fs.s3a.endpoint": "h:1"}, "s3a://b", {"endpoint": "https://h:1"}, {}),
        (
            {"fs.s3a.endpoint": "http://h", "fs.s3a.path.style.access": "false"},
            "s3a://bucket",
            {"endpoint": "http://bucket.h", "virtual_hosted_style_request": "true"},
            {"allow_http": "true"},
        ),
        # what Amazon's SDK does with a bucket that cannot be a part of a host's name
        (
            {"fs.s3a.endpoint": "http://10.0.0.1:9000", "fs.s3a.path.style.access": "false"},
            "s3a://b",
            {"endpoint": "http://10.0.0.1:9000", "virtual_hosted_style_request": "false"},
            {"allow_http": "true"},
        ),
        (
            {"fs.s3a.endpoint": "h", "fs.s3a.path.style.access": "false"},
            "s3a://my.bucket",
            {"endpoint": "https://h", "virtual_hosted_style_request": "false"},
            {},
        ),
        (
            {
                "fs.s3a.endpoint": "https://h/",
                "fs.s3a.path.style.access": "false",
                "fs.s3a.bucket.my-bucket.path.style.access": "true",
            },
            "s3a://my-bucket",
            {"endpoint": "https://h", "virtual_hosted_style_request": "false"},
            {},
        ),
        ({"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}, "s3a://b", {"region": "eu-west-1"}, {}),
        ({"fs.s3a.endpoint": "https://s3-us-west-2.amazonaws.com"}, "s3a://b", {"region": "us-west-2"}, {}),
        ({"fs.s3a.endpoint": "s3.amazonaws.com", "fs.s3a.endpoint.region": "r"}, "s3a://b", {"region": "r"}, {}),
        ({"fs.s3a.encryption.algorithm": "AES256"}, "s3a://b", {"server_side_encryption": "AES256"}, {}),
        (
            {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "k"},
            "s3a://b",
            {"server_side_encryption": "aws:kms", "sse_kms_key_id": "k"},
            {},
        ),
        ({"fs.s3a.requester.pays.enabled": "true"}, "s3a://b", {"request_payer": "true"}, {}),
        (
            {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            "s3a://b",
            {"skip_signature": "true"},
            {},
        ),
        (
            {"fs.s3a.aws.credentials.provider": "\n org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider\n"},
            "s3a://b",
            {},
            {},
        ),
        (
            {"fs.azure.account.key.acc.dfs.core.windows.net": "k"},
            "abfss://c@acc.dfs.core.windows.net",
            {"account_key": "k"},
            {},
        ),
        ({"fs.azure.account.key.other.dfs.core.windows.net": "k"}, "abfss://c@acc.dfs.core.windows.net", {}, {}),
        ({"azure_storage_account_name": "a"}, "az://c", {"azure_storage_account_name": "a"}, {}),
        ({"google_service_account": "/f"}, "gs://b", {"google_service_account": "/f"}, {}),
        ({"fs.s3a.access.key": "a"}, "az://c", {}, {}),
    ],
)
def test_options_are_understood(
    options: dict[str, str], location: str, storage: dict[str, str], client: dict[str, str]
) -> None:
    scheme, _, authority = location.partition("://")
    config = cloud_config(options, scheme, authority)
    assert (config.storage, config.client) == (storage, client)


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("s3://b/t", {"aws_acess_key_id": "secret"}),
        ("az://c/t", {"account_key": "secret"}),
        ("gs://b/t", {"bogus": "secret"}),
    ],
)
def test_a_misspelt_option_is_refused_without_showing_values(location: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        open_store(location, options).get("k")
    assert "secret" not in str(caught.value)


# --- processes


@pytest.mark.server
def test_a_pickled_store_works_in_a_process_of_its_own(s3: Server) -> None:
    store = open_store(f"{s3.url}/pickled", s3.options)
    store.put("k", b"1")
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).get('k'))"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(store), capture_output=True, timeout=60)
    assert done.stdout.strip() == b"b'1'", done.stderr.decode()


@pytest.mark.server
def test_a_forked_process_gets_an_error_and_does_not_hang(s3: Server) -> None:
    store = open_store(f"{s3.url}/forked", s3.options)
    store.put("k", b"1")
    child = os.fork()
    if child == 0:
        try:
            store.put("k", b"2")
        except ForkedProcessError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_obstore_is_not_loaded_before_an_object_store_is_opened() -> None:
    """`import tahoe` in a driver that forks workers must start nothing."""
    opened = "open_store('/tmp'); open_store('memory://x')"
    program = f"import sys, tahoe; from tahoe.storage import open_store; {opened}; print('obstore' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stdout.strip()
        == "False"
    )


def test_a_server_that_is_down_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "RETRY_SECONDS_MAX", 1)
    options = {"endpoint": "http://127.0.0.1:9", "access_key_id": "x", "secret_access_key": "y"}
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:9"):
        open_store("s3://bucket/down", options).get("k")


def test_without_tags_a_file_is_the_same_in_a_listing_and_by_itself():
    """Listings of S3 have the milliseconds of a time, and all other answers whole seconds: else nothing could ever be
    committed there.
    """
    listed = datetime(2026, 1, 1, 12, 0, 0, 123_000, UTC)
    alone = listed.replace(microsecond=0)
    infos = [cloud._info("key", {"size": 1, "last_modified": time, "e_tag": None}) for time in (listed, alone)]
    assert infos[0].identity == infos[1].identity
    assert cloud._info("key", {"size": 1, "last_modified": listed, "e_tag": '"tag"'}).modified_ms % 1000 == 123


METADATA_SERVICE = (
    "Error performing PUT http://169.254.169.254/latest/api/token in 1.1s, after 10 retries: 403 Forbidden"
)


@pytest.mark.parametrize(
    ("scheme", "named"),
    [("s3", "AWS_ACCESS_KEY_ID"), ("s3a", "aws_secret_access_key"), ("gs", "GOOGLE_"), ("abfss", "AZURE_")],
)
def test_the_error_of_a_metadata_service_tells_which_credentials_are_missing(scheme, named):
    assert named in credentials_missing(METADATA_SERVICE, scheme)
    assert credentials_missing("403 Forbidden: the bucket is not yours", scheme) is None


def test_a_store_without_credentials_names_them(monkeypatch):
    def refused(*_: object) -> None:
        raise GenericError(METADATA_SERVICE)

    store = CloudStore("s3://bucket/t")
    monkeypatch.setattr(CloudStore, "_bucket", refused)
    with pytest.raises(CredentialsMissingError, match="AWS_ACCESS_KEY_ID"):
        store.get("x")


def test_a_storage_that_is_away_for_a_while_is_asked_again_more_than_ten_times(monkeypatch):
    """obstore's ten attempts end after two seconds, whatever time is allowed."""
    asked: list[str] = []

    class Away(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(503 if len(asked) < 20 else 200)
            self.send_header("Content-Length", "1")
            self.send_header("ETag", '"x"')
            self.send_header("Last-Modified", "Fri, 27 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(b"x")

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(cloud, "_FIRST_PAUSE", timedelta(milliseconds=1))
    monkeypatch.setattr(cloud, "_PAUSE_MAX", timedelta(milliseconds=2))
    server = HTTPServer(("127.0.0.1", 0), Away)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        options = {
            "endpoint": f"http://127.0.0.1:{server.server_port}",
            "access_key_id": "k",
            "secret_access_key": "s",
            "region": "x",
        }
        assert CloudStore("s3://away-for-a-while/t", options).get("x") == b"x"
    finally:
        server.shutdown()
    assert len(asked) == 20


def test_a_condition_that_nobody_asked_for_is_an_error_of_the_storage() -> None:
    """Azure answers 412 for a blob with a lease."""

    class Leased(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(412)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = answer  # noqa: N815 - the names are the base class's

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Leased)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        store = open_store(
            "s3://lake/t", {"endpoint": endpoint, "aws_access_key_id": "x", "aws_secret_access_key": "y"}
        )
        calls: list[Callable[[], object]] = [
            lambda: store.put("a", b"x"),
            lambda: store.delete("a"),
            lambda: store.get("a"),
            lambda: store.get_range("a", 0, 5),
            lambda: store.head("a"),
            lambda: store.open("a"),
        ]
        for call in calls:
            with pytest.raises(StorageUnavailableError):
                call()
        assert set(store.delete_many(["a", "b"])) == {"a", "b"}
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def loopback(answer: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, bytes] | None]) -> Iterator[CloudStore]:
    """A store whose server answers a request and its content by a status and a content; by None, it resets the
    connection.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            found = answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            if found is None:
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                return
            self.send_response(found[0])
            self.send_header("Content-Length", str(len(found[1])))
            self.send_header("ETag", '"x"')
            self.send_header("Last-Modified", "Fri, 27 Nov 2026 12:00:00 GMT")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found[1])

        do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = answer  # noqa: N815 - the names are the base class's

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        options = s3_options(f"http://127.0.0.1:{server.server_port}")
        yield CloudStore("s3://lake/loopback", options, skips_probe=True)
    finally:
        server.shutdown()
        server.server_close()


def test_a_create_whose_connection_breaks_is_repeated() -> None:
    """As when the server is restarted: obstore repeats other requests, and a stream's or a hook's file is created
    once.
    """
    asked: list[str] = []

    def restarted(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, bytes] | None:
        asked.append(request.headers["If-None-Match"])
        return None if len(asked) < 3 else (200, b"")

    with loopback(restarted) as store:
        assert store.put_if_absent("k", b"1") is True
    assert asked == ["*"] * 3


def test_a_listing_whose_connection_breaks_is_repeated() -> None:
    """As when the server is killed while it answers: a writer would fail that has done nothing yet."""
    told = "<Contents><Key>loopback/a</Key><LastModified>2026-11-28T00:00:00.000Z</LastModified><ETag>x</ETag><Size>1</Size></Contents>"  # fmt: skip
    asked: list[str] = []

    def killed(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, bytes] | None:
        asked.append(request.path)
        if len(asked) % 3:
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<ListBucket")
            return None
        return 200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{told}</ListBucketResult>".encode()

    with loopback(killed) as store:
        for listing in (store.list_from(""), store.list_from("", "0"), store.walk()):
            assert [info.key for info in listing] == ["a"]
    assert len(asked) == 9


def listed(*keys: str, more: bool) -> tuple[int, bytes]:
    """A page of a listing."""
    told = "".join(
        f"<Contents><Key>loopback/{key}</Key><LastModified>2026-11-28T00:00:00.000Z</LastModified>"
        f"<ETag>x</ETag><Size>1</Size></Contents>"
        for key in keys
    )
    rest = f"<NextContinuationToken>{keys[-1]}</NextContinuationToken>" if more else ""
    told += f"<IsTruncated>{str(more).lower()}</IsTruncated>{rest}"
    return 200, f"<ListBucketResult>{told}</ListBucketResult>".encode()


@pytest.mark.parametrize("names", ["abcdef", "badcfe"])
def test_a_long_listing_comes_in_pieces_and_goes_on_where_it_broke(monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """VACUUM would keep all files in memory, and begin anew behind the millionth. A storage that lists in no order
    cannot go on.
    """
    monkeypatch.setattr(cloud, "_LIST_PAGE", 2)
    monkeypatch.setattr(env, "_BRANCH_FILES", 2)
    pages = [names[start : start + 2] for start in range(0, 6, 2)]
    asked: list[tuple[str, str]] = []

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, bytes] | None:
        query = parse_qs(urlsplit(request.path).query)
        token, start = query.get("continuation-token", [""])[0], query.get("start-after", [""])[0]
        asked.append((token, start))
        after = token or start.removeprefix("loopback/")
        if token == pages[1][-1]:  # always breaks there, until it begins behind the second page
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<ListBucket")
            return None
        page = next(
            number for number, page in enumerate(pages) if not after or (number and pages[number - 1][-1] == after)
        )
        return listed(*pages[page], more=page < 2)

    with loopback(answer) as store:
        found = store.branches()
        assert next(found).keys == list(pages[0])
        assert len(asked) < 3, "the whole folder was listed before the first piece"
        if names == "badcfe":
            assert next(found).keys == list(pages[1])
            with pytest.raises(StorageUnavailableError):
                next(found)
            return
        assert [branch.keys for branch in found] == [list(page) for page in pages[1:]]
    assert asked[-1] == ("", f"loopback/{pages[1][-1]}")


class Uploads:
    """A server of uploads in parts."""

    def __init__(self, complete: Callable[[int], tuple[int, bytes] | None]) -> None:
        self.parts, self.file, self._complete = list[dict[int, bytes]](), b"", complete

    def __call__(self, request: BaseHTTPRequestHandler, data: bytes) -> tuple[int, bytes] | None:
        asked = parse_qs(urlsplit(request.path).query, keep_blank_values=True)
        if request.command == "HEAD":
            return (200, self.file) if self.file else (404, b"")
        if "uploads" in asked:
            self.parts.append({})
            names = "<Bucket>b</Bucket><Key>k</Key>"
            told = f"<InitiateMultipartUploadResult>{names}<UploadId>{len(self.parts) - 1}</UploadId></InitiateMultipartUploadResult>"  # fmt: skip
            return 200, told.encode()
        upload = self.parts[int(asked["uploadId"][0])]
        if request.command == "PUT":
            upload[int(asked["partNumber"][0])] = data
        elif request.command == "POST":
            answer = self._complete(len(self.parts))
            if answer is None or answer[1]:
                return answer
            self.file = b"".join(upload[part] for part in sorted(upload))
        return 200, b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'


@pytest.mark.parametrize("is_file", [True, False])
def test_an_upload_whose_last_answer_was_lost_is_repeated(is_file: bool) -> None:
    """obstore completes it again, and the storage has no such upload any more: that is no refusal of the file."""
    answers = [None, (404, b"<Error><Code>NoSuchUpload</Code></Error>"), (200, b"")]
    content, server = os.urandom((10 << 20) + 1), Uploads(lambda _: answers.pop(0))
    with loopback(server) as store:
        file = io.BytesIO(b"before" + content)
        file.seek(len(b"before"))
        store.put("k", file if is_file else content)
    assert server.file == content
    assert len(server.parts) == 2


def test_an_upload_that_the_storage_acknowledged_and_lost_is_repeated() -> None:
    """versitygw, when it was killed while it completed one: a table would have a file that is not there."""
    told = b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'
    content, server = os.urandom((10 << 20) + 1), Uploads(lambda upload: (200, told if upload == 1 else b""))
    with loopback(server) as store:
        store.put("k", content)
    assert server.file == content
    with (
        loopback(Uploads(lambda _: (200, told))) as store,
        pytest.raises(StorageUnavailableError, match="acknowledged"),
    ):
        store.put("k", io.BytesIO(content))


@pytest.mark.parametrize("code", ["NoSuchBucket", "ContainerNotFound", "XAdminUserNotFound"])
def test_what_is_missing_may_be_something_else_than_the_file(code: str) -> None:
    """Taken for a missing file, a commit that was made would be believed not to be there, or its data to be lost."""
    with loopback(lambda *_: (404, f"<Error><Code>{code}</Code></Error>".encode())) as store:
        for read in (lambda: store.get("k"), lambda: store.get_range("k", 0, 5)):
            with pytest.raises(StorageRefusedError, match=code):
                read()
    with (
        loopback(lambda *_: (404, b"<Error><Code>NoSuchKey</Code></Error>")) as store,
        pytest.raises(FileNotFoundError),
    ):
        store.get("k")


def test_names_between_a_marker_and_what_is_below_it() -> None:
    keys = {"p=1": 0, "p=1.5": 0, "p=1.5/x": 1, "p=1/x": 1, "q": 0, "r": 1}
    files = [FileInfo(key, size, 0) for key, size in keys.items()]
    assert sorted(info.key for info in _without_markers(files)) == ["p=1.5/x", "p=1/x", "q", "r"]
