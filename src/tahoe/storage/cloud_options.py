"""Converts a user's `storage_options` to obstore's configuration. Works on dictionaries: nothing is opened here.

Two spellings are accepted: obstore's keys (`aws_access_key_id`, `region`, `account_key`, `allow_http`, `timeout`, ...,
in any case), and common Hadoop keys, optionally prefixed with `spark.hadoop.`: `fs.s3a.access.key`, `secret.key`,
`session.token`, `endpoint`, `endpoint.region`, `path.style.access`, `connection.ssl.enabled`, `requester.pays.enabled`,
`encryption.algorithm` and `encryption.key`, `aws.credentials.provider` for anonymous access, each also per bucket; and
`fs.azure.account.key`, also per account. Environment variables (`AWS_*`, `AZURE_*`, `GOOGLE_*`) are read by obstore
itself; options take precedence over them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tahoe.storage.schemes import AZURE_SCHEMES, S3_SCHEMES

# The keys that configure the HTTP client, which obstore takes separately from those of the storage.
CLIENT_KEYS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_PREFIXES = ("aws_", "azure_", "google_")
_SPARK_PREFIX = "spark.hadoop."
_HADOOP_PREFIX = "fs."


@dataclass(frozen=True, slots=True)
class CloudConfig:
    """The two configuration dictionaries of an obstore store."""

    storage: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)


def cloud_config(options: Mapping[str, str], scheme: str, authority: str) -> CloudConfig:
    """The configuration for the bucket or container `authority`. obstore's own keys take precedence over Hadoop's.

    Other Hadoop keys are ignored, because whole Hadoop configurations are passed in. An http:// endpoint enables plain
    HTTP.
    """
    plain = {key.removeprefix(_SPARK_PREFIX): str(value) for key, value in options.items()}
    hadoop = {key.removeprefix(_HADOOP_PREFIX): value for key, value in plain.items() if key.startswith(_HADOOP_PREFIX)}
    own = {_short(key, scheme): value for key, value in plain.items() if not key.startswith(_HADOOP_PREFIX)}
    config = CloudConfig()
    for key, value in {**_from_hadoop(hadoop, scheme, authority), **own}.items():
        (config.client if key in CLIENT_KEYS else config.storage)[key] = value
    if any(key.endswith("endpoint") and value.startswith("http://") for key, value in config.storage.items()):
        config.client.setdefault("allow_http", "true")
    return config


# The environment variables from which obstore takes an S3 endpoint.
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_AWS_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")


def foreign_endpoint(
    options: Mapping[str, str], environment: Mapping[str, str], scheme: str, authority: str
) -> str | None:
    """The endpoint of an S3-compatible storage outside AWS; None for AWS and for all other storages."""
    if scheme not in S3_SCHEMES:
        return None
    config = cloud_config(options, scheme, authority).storage
    given = [
        config.get("endpoint"),
        config.get("endpoint_url"),
        *(environment.get(name) for name in _ENDPOINT_VARIABLES),
    ]
    endpoint = next((value for value in given if value), None)
    return None if endpoint is None or (urlsplit(endpoint).hostname or "").endswith(_AWS_HOSTS) else endpoint


# The services of a cloud's machines that give credentials. A client asks them if it has none.
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "metadata.google.internal")

_S3_CREDENTIALS = (
    "the environment variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the storage options "
    "aws_access_key_id and aws_secret_access_key; aws_skip_signature=true for a public bucket"
)
_AZURE_CREDENTIALS = (
    "the environment variables AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY, or AZURE_STORAGE_CLIENT_ID with "
    "its secret and tenant, or storage options of the same meaning"
)
_GOOGLE_CREDENTIALS = (
    "the environment variable GOOGLE_APPLICATION_CREDENTIALS, or the storage option google_service_account"
)


def credentials_missing(error: str, scheme: str) -> str | None:
    """The places in which credentials are looked for, if an error is that of a metadata service; None for other
    errors.
    """
    if not any(service in error for service in _METADATA_SERVICES):
        return None
    return (
        _S3_CREDENTIALS
        if scheme in S3_SCHEMES
        else _AZURE_CREDENTIALS
        if scheme in AZURE_SCHEMES
        else _GOOGLE_CREDENTIALS
    )


def client_environment(environment: Mapping[str, str], scheme: str) -> dict[str, str]:
    """The HTTP client settings in the environment (`AWS_ALLOW_HTTP`, ...), which obstore ignores if any is given as an
    option.
    """
    prefix = "aws_" if scheme in S3_SCHEMES else "azure_" if scheme in AZURE_SCHEMES else "google_"
    lower = {name.lower(): value for name, value in environment.items()}
    return {key: lower[prefix + key] for key in CLIENT_KEYS if prefix + key in lower}


def _short(key: str, scheme: str) -> str:
    """The key without the storage's prefix, which obstore accepts too for S3. Keys of Azure and Google keep their
    prefix.
    """
    lower = key.lower()
    short = next((lower.removeprefix(prefix) for prefix in _PREFIXES if lower.startswith(prefix)), lower)
    return short if short in CLIENT_KEYS or scheme in S3_SCHEMES else lower


def _from_hadoop(hadoop: Mapping[str, str], scheme: str, authority: str) -> dict[str, str]:
    if scheme in S3_SCHEMES:
        return _from_s3a(hadoop, authority)
    return _from_azure(hadoop, authority) if scheme in AZURE_SCHEMES else {}


_S3A: Mapping[str, str] = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}


def _from_s3a(hadoop: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Configuration from `fs.s3a.*`; `fs.s3a.bucket.<name>.*` takes precedence."""

    def option(name: str) -> str | None:
        return hadoop.get(f"s3a.bucket.{bucket}.{name}", hadoop.get(f"s3a.{name}"))

    config = {ours: value for theirs, ours in _S3A.items() if (value := option(theirs))}
    path_style, endpoint = option("path.style.access"), (option("endpoint") or "").rstrip("/")
    scheme, separator, host = endpoint.rpartition("://")
    if not separator:
        scheme = "http" if (option("connection.ssl.enabled") or "true").lower() == "false" else "https"
    host_style = path_style is not None and path_style.lower() == "false" and _can_be_in_a_host(bucket, scheme, host)
    if path_style is not None:
        config["virtual_hosted_style_request"] = str(host_style).lower()
    if found := _AWS_HOST.fullmatch(host):
        config.update({"region": found[1]} if found[1] and "region" not in config else {})
    elif endpoint:
        config["endpoint"] = f"{scheme}://{bucket}.{host}" if host_style else f"{scheme}://{host}"
    return {
        **config,
        **_s3a_encryption(option("encryption.algorithm"), option("encryption.key")),
        **_s3a_access(option),
    }


# AWS hosts, which obstore derives from the region. The global host has no region.
_AWS_HOST = re.compile(r"s3(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com")

_BUCKET_AS_HOST = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|\[.*\]")


def _can_be_in_a_host(bucket: str, scheme: str, host: str) -> bool:
    """Whether the AWS SDK would use a virtual-hosted URL: not for IP addresses, nor over https for buckets with a
    dot.
    """
    names = [bucket] if scheme == "https" else bucket.split(".")
    return not _ADDRESS.fullmatch(re.sub(r":\d+$", "", host)) and all(_BUCKET_AS_HOST.fullmatch(name) for name in names)


def _s3a_encryption(algorithm: str | None, key: str | None) -> dict[str, str]:
    """Server-side encryption of new objects; some buckets refuse objects without it."""
    config = {"server_side_encryption": found} if (found := _S3A_ENCRYPTION.get((algorithm or "").upper())) else {}
    return {**config, "sse_kms_key_id": key} if key and config and found != "AES256" else config


_S3A_ENCRYPTION: Mapping[str, str] = {
    "AES256": "AES256",
    "SSE-S3": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
}


def _s3a_access(option: Callable[[str], str | None]) -> dict[str, str]:
    config = {"request_payer": "true"} if (option("requester.pays.enabled") or "").lower() == "true" else {}
    providers = [name.strip() for name in (option("aws.credentials.provider") or "").split(",")]
    return {**config, "skip_signature": "true"} if providers[0].endswith(".AnonymousAWSCredentialsProvider") else config


def _from_azure(hadoop: Mapping[str, str], authority: str) -> dict[str, str]:
    """Configuration from `fs.azure.account.key`; `fs.azure.account.key.<account>.dfs.core.windows.net` takes
    precedence.
    """
    account = authority.partition("@")[2]
    key = hadoop.get(f"azure.account.key.{account}", hadoop.get("azure.account.key"))
    return {"account_key": key} if key else {}
