"""One spelling for every place, whatever the user types."""

from __future__ import annotations

from pathlib import Path

import pytest

from tahoe.errors import InvalidOptionError, UnsupportedStorageError
from tahoe.storage.locations import join, local_path, normalise, split_file, split_url


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("/a/b", "file:///a/b"),
        ("/a/b/", "file:///a/b"),
        ("/a//b/./c/", "file:///a/b/c"),
        ("/a/../b", "file:///b"),
        ("/../b", "file:///b"),
        ("/", "file://"),
        ("a/b", "file:///home/me/a/b"),
        ("./a", "file:///home/me/a"),
        ("../a", "file:///home/a"),
        (".", "file:///home/me"),
        ("./~/a", "file:///home/me/~/a"),
        ("~user/a", "file:///home/me/~user/a"),
        ("a/b:c", "file:///home/me/a/b:c"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a/b/", "file:///a/b"),
        ("FILE:///a/b", "file:///a/b"),
        ("file://localhost/a", "file:///a"),
        ("file:a", "file:///home/me/a"),
        ("/a b/c%20d/é#?", "file:///a b/c%20d/é#?"),
        ("file:///a%20b", "file:///a%20b"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/a//b/", "s3a://bucket/a/b"),
        ("s3n://bucket/a", "s3n://bucket/a"),
        ("S3://Bucket/A", "s3://Bucket/A"),
        ("s3://bucket/a/../b", "s3://bucket/b"),
        ("gs://bucket/a b", "gs://bucket/a b"),
        ("az://container/a", "az://container/a"),
        ("adl://container/a", "adl://container/a"),
        ("abfs://c@acc.dfs.core.windows.net/a/", "abfs://c@acc.dfs.core.windows.net/a"),
        ("abfss://c@acc.dfs.core.windows.net", "abfss://c@acc.dfs.core.windows.net"),
        ("memory://name", "memory://name"),
        ("memory://name/a", "memory://name/a"),
        (Path("/a/b"), "file:///a/b"),
    ],
)
def test_locations_have_one_spelling(typed: str | Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/home/me")
    assert normalise(typed) == url
    assert normalise(url) == url


@pytest.mark.parametrize("typed", ["hdfs://namenode/a", "dbfs:/a", "http://x/y", "C:\\data", "c:/data"])
def test_an_unknown_scheme_is_refused_with_the_known_ones(typed: str) -> None:
    with pytest.raises(UnsupportedStorageError, match="s3://") as caught:
        normalise(typed)
    assert caught.value.parameters["scheme"] == typed.partition(":")[0].lower()


@pytest.mark.parametrize("typed", ["", "s3:///a", "s3:/a", "memory://", "memory:/a", "file://machine/a"])
def test_a_location_that_names_nothing_is_refused(typed: str) -> None:
    """`s3:/a` for `s3://a` must not become a folder of the local disk, nor of a bucket without a name."""
    with pytest.raises(InvalidOptionError):
        normalise(typed)


def test_urls_come_apart_and_together_again() -> None:
    assert split_url("abfss://c@acc.dfs.core.windows.net/a/b c") == ("abfss", "c@acc.dfs.core.windows.net", "a/b c")
    assert split_url("file:///a") == ("file", "", "a")
    assert split_url("s3://bucket") == ("s3", "bucket", "")
    assert split_file("s3://bucket/t/p=1/part-0.parquet") == ("s3://bucket/t/p=1", "part-0.parquet")
    assert split_file("file:///x") == ("file://", "x")
    assert join(*split_file("file:///x")) == "file:///x"
    assert local_path("file:///a b") == "/a b"
    assert local_path("file://") == "/"


def test_the_home_folder_is_that_of_the_user(monkeypatch):
    """A program that is given ~/t without a shell would make a folder named ~."""
    monkeypatch.setenv("HOME", "/home/grace")
    assert [normalise(text) for text in ("~", "~/", "~/a")] == [
        "file:///home/grace",
        "file:///home/grace",
        "file:///home/grace/a",
    ]
