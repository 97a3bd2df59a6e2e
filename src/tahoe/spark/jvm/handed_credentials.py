"""Credentials that a catalog's server has handed out for the folder of a table: for our own store, and for the tasks of
one scan or write. They are in its settings of Hadoop alone, not in those of the session.

Hadoop keeps one file system of a bucket, whatever its credentials are. So tasks get theirs from
`delta.shared.SharedFileSystem`, which keeps one for each credentials.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tahoe.spark.jvm.gateway import EXECUTOR_SOURCES, Gateway
from tahoe.storage.locations import split_url
from tahoe.storage.schemes import S3_SCHEMES

if TYPE_CHECKING:  # a catalog needs SQLAlchemy, which sessions without one do not
    from tahoe.catalog.remote_credentials import Handed

# The file system of tasks, and its settings; see `delta.shared.SharedFileSystem`.
SYSTEM_CLASS = "delta.shared.SharedFileSystem"
_SETTINGS = "tahoe.shared."

_PROVIDERS = "org.apache.hadoop.fs.s3a."


def takes_credentials(url: str, settings: Mapping[str, str]) -> bool:
    """Whether a folder is opened with what a server hands out: it is in S3, and the settings have no keys for it."""
    scheme, bucket, _ = split_url(url)
    keys = ("fs.s3a.access.key", f"fs.s3a.bucket.{bucket}.access.key")
    return scheme in S3_SCHEMES and not any(settings.get(key) for key in keys)


def credentials_for_tasks(gateway: Gateway, url: str, handed: Handed) -> dict[str, str]:
    """The settings of Hadoop with which tasks read or write the files of a folder; none if the server has handed out
    nothing. The JAR with the file system is sent to executors. The thread is the one that starts the jobs.
    """
    settings = hadoop_credentials(url, handed)
    if not settings:
        return settings
    scheme = split_url(url)[0]
    name = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()
    jar = gateway.compiled_jar(EXECUTOR_SOURCES, SYSTEM_CLASS)
    gateway.java_class("delta.ExecutorJar").send(gateway.session.sparkContext(), jar)
    hadoop = gateway.session.sessionState().newHadoopConf()
    implementation = hadoop.get(f"fs.{scheme}.impl")
    return {
        **settings,
        f"fs.{scheme}.impl": SYSTEM_CLASS,
        f"fs.{scheme}.impl.disable.cache": "true",
        f"{_SETTINGS}name": name,
        f"{_SETTINGS}expires": str(int(handed.expires_ms)),
        **({} if implementation is None else {f"{_SETTINGS}impl": str(implementation)}),
    }


def hadoop_credentials(url: str, handed: Handed) -> dict[str, str]:
    """What a server has handed out, as settings of Hadoop for the bucket of a folder."""
    key = handed.options.get("aws_access_key_id")
    if key is None:
        return {}
    of_bucket, token = f"fs.s3a.bucket.{split_url(url)[1]}.", handed.options.get("aws_session_token")
    return {
        f"{of_bucket}access.key": key,
        f"{of_bucket}secret.key": handed.options["aws_secret_access_key"],
        f"{of_bucket}aws.credentials.provider": (
            f"{_PROVIDERS}SimpleAWSCredentialsProvider"
            if token is None
            else f"{_PROVIDERS}TemporaryAWSCredentialsProvider"
        ),
        **({} if token is None else {f"{of_bucket}session.token": token}),
    }
